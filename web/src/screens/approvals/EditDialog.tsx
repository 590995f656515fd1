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
import { conflict, isPending } from "./decide";
import { changes, diffOf, editableText, inputOf, inputProblem } from "./edit";

/**
 * A dialog that changes the arguments of the displayed call. It does not approve the call: the
 * changed call stays pending. now is the current state of the approval.
 */
export function EditDialog({ shown, now, onClose }: { shown: Approval; now: Approval; onClose: () => void }) {
  const [text, setText] = useState(() => editableText(shown));
  const [reason, setReason] = useState("");
  const [isReviewing, setIsReviewing] = useState(false);
  const queries = useQueryClient();
  const edit = useMutation({
    mutationFn: async () => {
      const { approval } = await client(ApprovalsService).editApproval({ approvalId: shown.approvalId, version: shown.version, shownDigest: shown.callDigest, inputJson: inputOf(text), reason: reason.trim() });
      if (approval === undefined) throw new Error("The gateway sent no approval.");
      return approval;
    },
    onSuccess: async () => {
      // The caller's eligibility can differ for the changed call, so refetch everything.
      await queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] });
      announce("The call is changed. It is pending.");
      onClose();
    },
    onError: () => queries.invalidateQueries({ queryKey: ["approval", shown.approvalId] }),
  });
  const hasChanged = now.version !== shown.version || now.callDigest !== shown.callDigest || !isPending(now);
  const problem = inputProblem(shown, text);
  const armed = useArmed(`${isReviewing}`);
  const conflictMessage = edit.isError ? conflict(edit.error, now) : undefined;
  const disabledReason = edit.isPending ? "In progress." : hasChanged ? "The approval has changed." : (problem ?? (armed ? undefined : "Wait a moment: the dialog has just appeared."));
  return (
    <Dialog wide open onClose={onClose} title={isReviewing ? "Apply these changes to the call?" : "Edit the call"}>
      <div className="flex flex-col gap-3">
        {hasChanged && <Notice tone="bad">{isPending(now) ? "Another member voted on or edited this call in the meantime. Close this dialog, review the call and edit it again." : "The approval was answered or expired in the meantime: the call can no longer be changed."}</Notice>}
        {conflictMessage !== undefined && !hasChanged && <Notice tone="bad">{conflictMessage}</Notice>}
        {edit.isError && conflictMessage === undefined && <ErrorState error={edit.error} />}
        {isReviewing ? (
          <>
            <Diff files={problem === undefined ? diffOf(changes(shown, text)) : []} />
            <p>
              Policy evaluates the changed call again, for its requester and for you. Earlier votes do not count, an approval covers only this call, and the requester sees your changes. If members cannot approve their own calls, another
              member must approve it.
            </p>
          </>
        ) : (
          <>
            <TextArea label="All arguments, as JSON" className="font-mono text-sm" rows={14} value={text} aria-invalid={problem !== undefined} hint={problem ?? "Ready for review."} onChange={(event) => setText(event.target.value)} />
            <TextArea label="Reason (displayed to the requester)" rows={2} maxLength={1024} value={reason} onChange={(event) => setReason(event.target.value)} />
          </>
        )}
        <p className="flex flex-wrap items-center gap-2 text-sm text-quiet">
          Edits version {shown.version.toString()} of the approval, call <Id id={shown.callDigest} />
        </p>
        <div className="flex flex-wrap items-center justify-end gap-2">
          <span className="mr-auto">
            <CopyAsCli command={palyra("approvals", "edit", shown.approvalId)} />
          </span>
          {isReviewing ? <Button onClick={() => setIsReviewing(false)}>Back</Button> : <Button onClick={onClose}>Cancel</Button>}
          {isReviewing ? (
            <Button variant="primary" disabledReason={disabledReason} onClick={() => edit.mutate()}>
              Change the call
            </Button>
          ) : (
            <Button variant="primary" disabledReason={hasChanged ? "The approval has changed." : problem} onClick={() => setIsReviewing(true)}>
              Review the changes
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}
