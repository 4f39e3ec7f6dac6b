#!/usr/bin/env node
// Streams one generation: the text to standard output, everything else to standard error.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { CallFailure } from './failure.js';
import { connect, generate } from './generation.js';

const USAGE = `Usage: node generate.js [options] PROMPT
  --address HOST:PORT    the coordinator (default 127.0.0.1:7400)
  --max-new-tokens N     most tokens to generate (default: the server's)
  --temperature T        0 is greedy (default 1)
  --seed N               fixes the draws (default: the server chooses)
  --raw                  continue PROMPT as it stands instead of answering it as a chat
  --deadline SECONDS     for the whole generation (default 300)
  --retries N            further attempts when the stream breaks (default 5)
  --tls-ca FILE          PEM certificate to trust; without it the connection is not encrypted
  --protos FOLDER        where outrider/v1/*.proto lie (default: this repository's)`;

const options = {
  address: { type: 'string', default: '127.0.0.1:7400' },
  'max-new-tokens': { type: 'string' },
  temperature: { type: 'string' },
  seed: { type: 'string' },
  raw: { type: 'boolean', default: false },
  deadline: { type: 'string', default: '300' },
  retries: { type: 'string', default: '5' },
  'tls-ca': { type: 'string' },
  protos: { type: 'string', default: fileURLToPath(new URL('../../../protos', import.meta.url)) },
};

class Misuse extends Error {}

function parseCommandLine() {
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length === 1) return { flags: values, prompt: positionals[0] };
  } catch (error) {
    throw new Misuse(error.message);
  }
  throw new Misuse('exactly one PROMPT is needed');
}

function toNumber(flags, name, pattern = /^-?\d*\.?\d+$/) {
  if (!pattern.test(flags[name])) throw new Misuse(`--${name}: not a number: ${flags[name]}`);
  return Number(flags[name]);
}

function toRequest(prompt, flags) {
  const given = (name) => flags[name] !== undefined;
  const messages = [{ role: 'CHAT_ROLE_USER', content: prompt }];
  const whole = /^\d+$/;
  if (given('seed')) toNumber(flags, 'seed', whole);
  return {
    ...(flags.raw ? { text: prompt } : { chat: { messages } }),
    ...(given('max-new-tokens') && { max_new_tokens: toNumber(flags, 'max-new-tokens', whole) }),
    // What is left out takes the server's default: unset and 0 are different things.
    sampling: {
      ...(given('temperature') && { temperature: toNumber(flags, 'temperature') }),
      ...(given('seed') && { seed: flags.seed }),
    },
  };
}

/** Writes `text` and waits while the reader is behind, which in turn slows the server down. */
async function print(text) {
  if (text && !process.stdout.write(text)) await once(process.stdout, 'drain');
}

function describe({ finish_reason, usage, speculation, seed, model }, elapsedMs) {
  const { rounds, draft_tokens, accepted_tokens } = speculation;
  const { prompt_tokens, output_tokens } = usage;
  const percentage = (100 * accepted_tokens) / draft_tokens;
  const acceptance = draft_tokens ? `${percentage.toFixed(1)} %` : '-';
  return [
    `model ${model}, seed ${seed}, ended by ${finish_reason}`,
    `tokens: ${prompt_tokens} in, ${output_tokens} out, ${(elapsedMs / 1000).toFixed(2)} s`,
    `rounds: ${rounds}, draft tokens ${draft_tokens}, accepted ${accepted_tokens} (${acceptance})`,
  ].join('\n');
}

const interrupt = new AbortController();
process.once('SIGINT', () => interrupt.abort());
process.stdout.once('error', () => interrupt.abort()); // nobody reads on

async function main() {
  const { flags, prompt } = parseCommandLine();
  const request = toRequest(prompt, flags);
  const limits = {
    deadlineMs: 1000 * toNumber(flags, 'deadline'),
    retries: toNumber(flags, 'retries'),
    signal: interrupt.signal,
    onRetry: ({ message }) => console.error(`\nthe stream broke (${message}), going on`),
  };
  const client = connect({
    address: flags.address,
    protos: flags.protos,
    rootCertificate: flags['tls-ca'] && readFileSync(flags['tls-ca']),
  });
  const started = performance.now();
  try {
    for await (const { chunk, summary } of generate(client, request, limits)) {
      await print(chunk?.text ?? summary?.text);
      if (summary) console.error(`\n${describe(summary, performance.now() - started)}`);
    }
  } finally {
    client.close();
  }
}

try {
  await main();
} catch (error) {
  if (interrupt.signal.aborted) process.exitCode = 130;
  else if (error instanceof Misuse) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exitCode = 2;
  } else {
    console.error(error instanceof CallFailure ? `\n${error.describe()}` : error);
    process.exitCode = 1;
  }
}
