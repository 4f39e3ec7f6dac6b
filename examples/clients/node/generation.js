// The public GenerationService, called from the contract's protos alone.

import { setTimeout as sleep } from 'node:timers/promises';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { CallFailure } from './failure.js';

const FIRST_DELAY_MS = 250;

/**
 * Connects to a coordinator.
 *
 * @param {object} options
 * @param {string} options.address host:port
 * @param {string} options.protos the folder that holds outrider/v1
 * @param {Buffer} [options.rootCertificate] PEM; without it the connection is not encrypted
 */
export function connect({ address, protos, rootCertificate }) {
  const definition = protoLoader.loadSync('outrider/v1/generation.proto', {
    includeDirs: [protos],
    keepCase: true,
    longs: String, // a 64-bit seed does not fit a number
    enums: String,
    defaults: true, // proto3 leaves out what is 0 or empty
    oneofs: true,
  });
  const { GenerationService } = grpc.loadPackageDefinition(definition).outrider.v1;
  const credentials = rootCertificate
    ? grpc.credentials.createSsl(rootCertificate)
    : grpc.credentials.createInsecure();
  // A coordinator is reached directly; a proxy for web traffic would only break the stream.
  return new GenerationService(address, credentials, { 'grpc.enable_http_proxy': 0 });
}

/**
 * Yields the chunks of one generation, then its summary, as `{chunk}` and `{summary}`.
 *
 * A stream that breaks is taken up again: the same request, with the ids that have arrived, goes
 * on where it stopped, on any coordinator. So each token comes once, in order.
 *
 * @param {object} client from `connect`
 * @param {object} request a GenerateRequest
 * @param {object} options
 * @param {number} options.deadlineMs for the whole generation, attempts and waiting included
 * @param {number} options.retries attempts after the first one
 * @param {AbortSignal} [options.signal] cancels the generation
 * @param {(failure: CallFailure) => void} [options.onRetry] told before each further attempt
 * @throws {CallFailure} when the generation cannot be finished
 */
export async function* generate(client, request, { deadlineMs, retries, signal, onRetry }) {
  const deadline = Date.now() + deadlineMs;
  const received = [...(request.output_token_ids ?? [])];
  let complete = false;
  for (let attempt = 0; ; attempt += 1) {
    const call = client.Generate({ ...request, output_token_ids: received }, { deadline });
    const cancel = () => call.cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      for await (const response of call) {
        if (response.event === 'chunk') take(response.chunk, received);
        complete ||= response.event === 'summary';
        yield response;
      }
      if (complete) return;
      throw lostStream('the stream ended without a summary');
    } catch (error) {
      if (complete) return; // nothing is missing, whatever became of the connection
      if (error.code === undefined) throw error;
      const failure = new CallFailure(error);
      const delayMs = failure.retryAfterMs ?? FIRST_DELAY_MS * 2 ** attempt;
      const tooLate = Date.now() + delayMs >= deadline;
      if (failure.status !== 'UNAVAILABLE' || attempt >= retries || tooLate) throw failure;
      onRetry?.(failure);
      await sleep(delayMs, undefined, { signal });
    } finally {
      signal?.removeEventListener('abort', cancel);
      call.cancel();
    }
  }
}

/** Adds the ids of a chunk, which must begin where the last one ended. */
function take(chunk, received) {
  if (chunk.offset !== received.length) {
    throw lostStream(`a chunk began at ${chunk.offset}, expected ${received.length}`, 'DATA_LOSS');
  }
  received.push(...chunk.token_ids);
}

function lostStream(details, status = 'UNAVAILABLE') {
  return Object.assign(new Error(details), { code: grpc.status[status], details });
}
