// The entry point of a Worker.
import { messageOf } from "./fault";
import type { Work } from "./stretch";
import { verifyStretch } from "./stretch";

addEventListener("message", (message: MessageEvent<Work>) => {
  verifyStretch(message.data).then(
    (done) => postMessage({ done }),
    (thrown: unknown) => postMessage({ failed: messageOf(thrown) }),
  );
});
