import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { GatewayService } from "../../gen/palyra/v1/gateway_pb";
import { announce } from "../../shell/announce";
import { Section } from "../../shell/Screen";
import { palyra } from "../../text/cli";
import { Button } from "../../ui/Button";
import { CopyAsCli } from "../../ui/Copy";
import { TextArea } from "../../ui/Field";
import { ErrorState } from "../../ui/State";

/** A form that sends messages to an active run. The timeline displays a message after the gateway has received it. */
export function MessageForm({ id, interactive }: { id: string; interactive: boolean }) {
  const [text, setText] = useState("");
  // The idempotency key prevents a duplicate if the request is repeated after a lost response.
  const [key, setKey] = useState(() => crypto.randomUUID());
  const send = useMutation({
    mutationFn: (last: boolean) => client(GatewayService).sendRunMessage({ runId: id, text: text.trim(), last, idempotencyKey: key }),
    onSuccess: () => {
      setText("");
      setKey(crypto.randomUUID());
      announce("Your message is sent.");
    },
  });
  const sendingReason = send.isPending ? "In progress." : undefined;
  const emptyReason = text.trim() === "" ? "Enter a message." : undefined;
  return (
    <Section title="Send a message">
      <form
        className="flex flex-col gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if ((sendingReason ?? emptyReason) === undefined) send.mutate(false);
        }}
      >
        <TextArea label="Your message" hint={interactive ? "The model receives it at its next turn; the run waits for messages." : "The model receives it at its next turn. This run ends when the model is finished."} rows={3} value={text} onChange={(event) => setText(event.target.value)} />
        {send.isError && <ErrorState error={send.error} />}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" variant="primary" needs="run.start" disabledReason={sendingReason ?? emptyReason}>
            Send
          </Button>
          {interactive && (
            <Button needs="run.start" disabledReason={sendingReason} onClick={() => send.mutate(true)}>
              {emptyReason === undefined ? "Send and finish" : "Finish"}
            </Button>
          )}
          <span className="ml-auto">
            <CopyAsCli command={palyra("runs", "message", id, text.trim() || "message")} />
          </span>
        </div>
      </form>
    </Section>
  );
}
