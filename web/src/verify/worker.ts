// What runs in each Worker.
import { because } from "./fault";
import type { Work } from "./stretch";
import { verifyStretch } from "./stretch";

addEventListener("message", (message: MessageEvent<Work>) => {
  verifyStretch(message.data).then(
    (done) => postMessage({ done }),
    (thrown: unknown) => postMessage({ failed: because(thrown) }),
  );
});
