// Unique ids, generated without a server.

export function uuid(): string {
  // Pages without TLS and React Native have no crypto.randomUUID, and an idempotency key need not be a secret.
  const random = () =>
    Math.floor(Math.random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return globalThis.crypto?.randomUUID?.() ?? random() + random() + random() + random();
}
