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

/** Says something to a run under way. The timeline shows it once the gateway has it. */
export function Talk({ id, interactive }: { id: string; interactive: boolean }) {
  const [text, setText] = useState("");
  // Sent again after a lost answer, the same key says nothing twice.
  const [key, setKey] = useState(() => crypto.randomUUID());
  const say = useMutation({
    mutationFn: (last: boolean) => client(GatewayService).sendRunMessage({ runId: id, text: text.trim(), last, idempotencyKey: key }),
    onSuccess: () => {
      setText("");
      setKey(crypto.randomUUID());
      announce("Your message is with the run.");
    },
  });
  const busy = say.isPending ? "On its way." : undefined;
  const nothing = text.trim() === "" ? "Say something." : undefined;
  return (
    <Section title="Talk to it">
      <form
        className="flex flex-col gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if ((busy ?? nothing) === undefined) say.mutate(false);
        }}
      >
        <TextArea label="Your message" hint={interactive ? "The model reads it at its next turn; the run waits for it." : "The model reads it at its next turn. This run ends when the model has nothing more to do."} rows={3} value={text} onChange={(event) => setText(event.target.value)} />
        {say.isError && <ErrorState error={say.error} />}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="primary" needs="run.start" off={busy ?? nothing}>
            Send
          </Button>
          {interactive && (
            <Button needs="run.start" off={busy} onClick={() => say.mutate(true)}>
              {nothing === undefined ? "Send, and that is all" : "That is all"}
            </Button>
          )}
          <span className="ml-auto">
            <CopyAsCli command={palyra("runs", "message", id, text.trim() || "what to say")} />
          </span>
        </div>
      </form>
    </Section>
  );
}
