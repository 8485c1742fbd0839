/* What waits for the screen. */

const HIDDEN = 1000;
/** Milliseconds after which a page that nobody sees, and that paints nothing, goes on. */

/** Fulfilled in the frame after the one that paints what has changed by now. */
export function repainted(): Promise<void> {
  return new Promise((done) => {
    if (document.hidden) return done();
    requestAnimationFrame(() => requestAnimationFrame(() => done()));
    setTimeout(done, HIDDEN);
  });
}
