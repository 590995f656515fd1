import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Approval } from "../../gen/palyra/v1/approvals_pb";
import { ApprovalsService } from "../../gen/palyra/v1/approvals_pb";
import { announce } from "../../shell/announce";
import { palyra } from "../../text/cli";
import { Button } from "../../ui/Button";
import { CopyAsCli, Id } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Diff } from "../../ui/Diff";
import { TextArea } from "../../ui/Field";
import { ErrorState, Notice } from "../../ui/State";
import { useArmed } from "./armed";
import { conflict, waits } from "./decide";
import { changes, diffOf, editable, inputOf, whyNot } from "./edit";

/**
 * Changes the arguments of the call that was shown. It approves nothing: the changed call
 * waits for a yes as before. now is the ask as it is by now.
 */
export function EditDialog({ shown, now, onClose }: { shown: Approval; now: Approval; onClose: () => void }) {
  const [text, setText] = useState(() => editable(shown));
  const [reason, setReason] = useState("");
  const [reviewing, setReviewing] = useState(false);
  const queries = useQueryClient();
  const edit = useMutation({
    mutationFn: async () => {
      const { approval } = await client(ApprovalsService).editApproval({ approvalId: shown.approvalId, version: shown.version, shownDigest: shown.callDigest, inputJson: inputOf(text), reason: reason.trim() });
      if (approval === undefined) throw new Error("The gateway sent no approval.");
      return approval;
    },
    onSuccess: async () => {
      // How the caller stands to the changed call is another matter: all is asked for anew.
      await queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] });
      announce("The call is changed. It waits for a yes.");
      onClose();
    },
    onError: () => queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] }),
  });
  const moved = now.version !== shown.version || now.callDigest !== shown.callDigest || !waits(now);
  const why = whyNot(shown, text);
  const armed = useArmed(`${reviewing}`);
  const said = edit.isError ? conflict(edit.error, now) : undefined;
  const off = edit.isPending ? "On its way." : moved ? "It is another ask by now." : (why ?? (armed ? undefined : "In a moment: it has just appeared."));
  return (
    <Dialog wide open onClose={onClose} title={reviewing ? "Change the call like this?" : "Edit the call"}>
      <div className="flex flex-col gap-3">
        {moved && <Notice tone="bad">{waits(now) ? "It changed while you edited: somebody voted or edited. Close this, look at it again, and edit what it is now." : "It was answered or its time ran out while you edited: nothing can be changed any more."}</Notice>}
        {said !== undefined && !moved && <Notice tone="bad">{said}</Notice>}
        {edit.isError && said === undefined && <ErrorState error={edit.error} />}
        {reviewing ? (
          <>
            <Diff files={why === undefined ? diffOf(changes(shown, text)) : []} />
            <p>
              The changed call is judged anew, for its requester and for you. The votes before do not count, a yes to it covers this one call, and the requester is told what you changed. Where nobody answers for themselves, somebody else
              says yes to it.
            </p>
          </>
        ) : (
          <>
            <TextArea label="All arguments, as JSON" className="font-mono text-sm" rows={14} value={text} aria-invalid={why !== undefined} hint={why ?? "Ready to be looked at."} onChange={(event) => setText(event.target.value)} />
            <TextArea label="Why (the requester reads it)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
          </>
        )}
        <p className="flex flex-wrap items-center gap-2 text-sm text-quiet">
          Edits version {shown.version.toString()} of the ask, call <Id id={shown.callDigest} />
        </p>
        <div className="flex flex-wrap items-center justify-end gap-2">
          <span className="mr-auto">
            <CopyAsCli command={palyra("approvals", "edit", shown.approvalId)} />
          </span>
          {reviewing ? <Button onClick={() => setReviewing(false)}>Back</Button> : <Button onClick={onClose}>Leave it</Button>}
          {reviewing ? (
            <Button look="primary" off={off} onClick={() => edit.mutate()}>
              Change the call
            </Button>
          ) : (
            <Button look="primary" off={moved ? "It is another ask by now." : why} onClick={() => setReviewing(true)}>
              See what changes
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}
