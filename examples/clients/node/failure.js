// Turns a failed call into an error that says what was wrong and what to do.

import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const DETAILS_TRAILER = 'grpc-status-details-bin';
const STATUS_PROTO = fileURLToPath(new URL('./status.proto', import.meta.url));
const READING = { keepCase: true, longs: Number, defaults: true };
const messages = protoLoader.loadSync(STATUS_PROTO, READING);

/** A call that failed: its status, and the server's ErrorInfo and RetryInfo when it sent them. */
export class CallFailure extends Error {
  /** @param {grpc.ServiceError} error */
  constructor(error) {
    super(error.details || error.message, { cause: error });
    const details = readDetails(error.metadata);
    /** Name of the gRPC status, such as `INVALID_ARGUMENT`. */
    this.status = grpc.status[error.code] ?? 'UNKNOWN';
    /** `{reason, domain, metadata}`, or undefined. */
    this.info = details.get('google.rpc.ErrorInfo');
    /** Milliseconds to wait before another attempt, or undefined. */
    this.retryAfterMs = toMilliseconds(details.get('google.rpc.RetryInfo')?.retry_delay);
  }

  /** The failure on a few lines, for people. */
  describe() {
    const metadata = Object.entries(this.info?.metadata ?? {});
    return [
      `${this.status}: ${this.message}`,
      ...(this.info ? [`  reason: ${this.info.reason} (${this.info.domain})`] : []),
      ...metadata.map(([key, value]) => `  ${key}: ${value}`),
    ].join('\n');
  }
}

function readDetails(metadata) {
  const [trailer] = metadata?.get(DETAILS_TRAILER) ?? [];
  if (trailer === undefined) return new Map();
  const { details } = messages['google.rpc.Status'].deserialize(trailer);
  const known = details
    .map(({ type_url, value }) => [type_url.slice(type_url.lastIndexOf('/') + 1), value])
    .filter(([name]) => name in messages);
  return new Map(known.map(([name, value]) => [name, messages[name].deserialize(value)]));
}

function toMilliseconds(delay) {
  return delay ? delay.seconds * 1000 + delay.nanos / 1e6 : undefined;
}
