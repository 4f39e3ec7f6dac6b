"""Templates render as `apply_chat_template` of transformers renders them, or say why not."""

from __future__ import annotations

import pytest
from jinja2 import TemplateSyntaxError
from transformers.utils.chat_template_utils import render_jinja_template

from coordinator.text import chat
from coordinator.text.chat import ROLES, ChatTemplate
from outrider.errors import InvalidRequest
from outrider.v1 import generation_pb2

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
CODES = {name: code for code, name in ROLES.items()}

CHATML = """{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}"""

INSTRUCT = """{% if messages[0]['role'] == 'system' %}
{% set loop_messages = messages[1:] %}
{% set system_message = '<<SYS>>\\n' + messages[0]['content'].strip() + '\\n<</SYS>>\\n\\n' %}
{% else %}
{% set loop_messages = messages %}{% set system_message = '' %}
{% endif %}
{% for message in loop_messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate user/assistant') }}
{% endif %}
{% set content = system_message + message['content'] if loop.index0 == 0 else message['content'] %}
{% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ ' ' + content | trim + ' ' + eos_token }}
{% endif %}
{% endfor %}
"""

HEADERS = """{{- bos_token }}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if not date is defined %}{%- set date = strftime_now('%Y') %}{%- endif %}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}{%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nYear: ' + date + '\\n' + system }}
{%- if tools is not none %}{{- 'Environment: ipython\\n' }}{%- endif %}
{{- '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

TURNS = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
    {% if (message['role'] == 'assistant') %}{% set role = 'model' %}
    {% else %}{% set role = message['role'] %}{% endif %}
    {{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

LINES = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

FEATURES = """{%- set ns = namespace(turns=0, last=none) -%}
{%- macro quoted(text) -%}{{ text | tojson }}{%- endmacro -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}{%- continue -%}{%- endif -%}
    {%- if ns.turns == 3 -%}{%- break -%}{%- endif -%}
    {%- set ns.turns = ns.turns + 1 -%}{%- set ns.last = message.content -%}
    {%- generation -%}{% set inner = 1 %}{{ quoted(message.content) }} {%- endgeneration -%}
    {{- inner is defined -}}
{%- endfor -%}
{{ {'b': ns.turns, 'a': ns.last} | tojson(indent=2, sort_keys=true) }}
{{ ['é'] | tojson(ensure_ascii=true, separators=(',', ':')) }}
{{ tools is defined }} {{ tools is none }} {{ documents is none }}
{{ undefined_name }} {{ pad_token }} {{ range(3) | list }}
{{ messages[0].content.split(' ')[-1].title() }} {{ dict(a=1) }}"""

TEMPLATES = {
    "chatml": CHATML,
    "instruct": INSTRUCT,
    "headers": HEADERS,
    "turns": TURNS,
    "lines": LINES,
    "features": FEATURES,
}
CHATS = {
    "one": [("user", "Hi <b>there</b> & \"you\" 'all' 한국 🙂")],
    "system": [("system", " Be brief. \n"), ("user", "\n two\nlines  ")],
    "long": [("user", "1"), ("assistant", " 2 "), ("user", "3"), ("assistant", "4"), ("user", "5")],
    "hostile": [("user", "{{ bos_token }}{% raise %}{# x #}<|im_end|>")],
    "empty": [("user", "")],
}


def messages(turns: list[tuple[str, str]]) -> list[generation_pb2.ChatMessage]:
    return [
        generation_pb2.ChatMessage(role=CODES[role], content=content) for role, content in turns
    ]


def by_transformers(source: str, turns: list[tuple[str, str]]) -> str:
    conversation = [{"role": role, "content": content} for role, content in turns]
    rendered, _ = render_jinja_template(
        conversations=[conversation],
        chat_template=source,
        add_generation_prompt=True,
        **SPECIAL_TOKENS,
    )
    text: str = rendered[0]
    return text


@pytest.mark.parametrize("turns", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_renders_as_transformers(source: str, turns: list[tuple[str, str]]) -> None:
    template = ChatTemplate(source, special_tokens=SPECIAL_TOKENS)
    try:
        wanted = by_transformers(source, turns)
    except Exception as error:
        with pytest.raises(InvalidRequest, match=str(error)) as caught:
            template.render(messages(turns))
        assert caught.value.field == "chat.messages"
    else:
        assert template.render(messages(turns)) == wanted


def test_special_tokens_do_not_replace_the_messages() -> None:
    template = ChatTemplate("{{ messages[0].content }}", special_tokens={"messages": "no"})
    assert template.render(messages([("user", "yes")])) == "yes"


def test_no_messages_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="at least one message"):
        ChatTemplate(CHATML, special_tokens={}).render([])


@pytest.mark.parametrize("role", [0, 4, 99])
def test_a_role_that_is_none_is_refused_by_its_place(role: int) -> None:
    turns = [
        *messages([("user", "a")]),
        generation_pb2.ChatMessage(role=role, content="b"),  # type: ignore[arg-type]
    ]
    with pytest.raises(InvalidRequest) as caught:
        ChatTemplate(CHATML, special_tokens={}).render(turns)
    assert caught.value.field == "chat.messages[1].role"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[5].content.nothing }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages.append(1) }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ range(10000000) | list }}",
        "{% include 'etc' %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ strftime_now(5) }}",
    ],
)
def test_what_goes_wrong_in_a_template_is_the_requests_fault(source: str) -> None:
    template = ChatTemplate(source, special_tokens={})
    with pytest.raises(InvalidRequest) as caught:
        template.render(messages([("user", "a")]))
    assert caught.value.field == "chat.messages"


def test_the_reason_of_a_template_is_cut() -> None:
    template = ChatTemplate("{{ raise_exception(messages[0].content) }}", special_tokens={})
    with pytest.raises(InvalidRequest) as caught:
        template.render(messages([("user", "x" * 100_000)]))
    assert len(caught.value.message) < 400


def test_a_rendering_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_PROMPT", 1_000)
    source = "{% for _ in range(99999) %}{% for _ in range(99999) %}abc{% endfor %}{% endfor %}"
    with pytest.raises(InvalidRequest, match="at most 1000"):
        ChatTemplate(source, special_tokens={}).render(messages([("user", "a")]))


def test_a_template_that_is_none_is_no_chat_template() -> None:
    with pytest.raises(TemplateSyntaxError):
        ChatTemplate("{% for %}", special_tokens={})
