// When the app's token ends. Whether it is valid is the server's to say.

/**
 * For how many milliseconds it is valid by this device's clock; 0, if it has ended. `undefined`: it does not say so in a way
 * that can be read here.
 */
export function timeLeft(token: string, now: number): number | undefined {
  try {
    const [, claims = ""] = token.split(".");
    // React Native had no `atob` before 0.74: there it throws, too.
    const { exp } = JSON.parse(atob(claims.replace(/-/g, "+").replace(/_/g, "/")));
    return Number.isFinite(exp) && exp >= 0 ? Math.max(exp * 1000 - now, 0) : undefined;
  } catch {
    return undefined;
  }
}
