// Reads the user and the expiry from the app's token. Only the server checks whether the token is valid.

/** Returns the user of the token. `undefined`: the client can't read a user from it. */
export function subject(token: string): string | undefined {
  const sub = claims(token)?.sub;
  return typeof sub === "string" ? sub : undefined;
}

/**
 * Returns the token's remaining lifetime in milliseconds by this device's clock; 0 if it has expired. `undefined`: the
 * client can't read an expiry.
 */
export function timeLeft(token: string, now: number): number | undefined {
  const exp = claims(token)?.exp;
  return typeof exp === "number" && Number.isFinite(exp) && exp >= 0 ? Math.max(exp * 1000 - now, 0) : undefined;
}

function claims(token: string): Record<string, unknown> | undefined {
  try {
    const [, claims = ""] = token.split(".");
    // React Native had no `atob` before 0.74: there it throws, too.
    return JSON.parse(atob(claims.replace(/-/g, "+").replace(/_/g, "/")));
  } catch {
    return undefined;
  }
}
