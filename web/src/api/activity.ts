// Detects whether the user is active. Requests that the page sends by itself, after an event
// of the stream, must not extend the idle timeout of the session.

const idleTimeout = 60_000;
let lastActivity = Date.now();

for (const kind of ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"]) {
  addEventListener(kind, () => (lastActivity = Date.now()), { capture: true, passive: true });
}

/** Whether a request is sent by the page itself and not by the user. */
export function isBackgroundRequest(): boolean {
  return document.visibilityState === "hidden" || Date.now() - lastActivity > idleTimeout;
}
