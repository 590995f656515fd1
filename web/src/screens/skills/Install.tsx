import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState } from "react";
import { client } from "../../api/transport";
import type { InspectSkillResponse } from "../../gen/palyra/v1/skill_pb";
import { SkillService } from "../../gen/palyra/v1/skill_pb";
import { announce } from "../../shell/announce";
import { useGo } from "../../shell/router";
import { sentence } from "../../text/sentence";
import { Button } from "../../ui/Button";
import { Id } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Checkbox } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { ErrorState, Notice, CommandText } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { PermissionList, AuditFindings, ToolList } from "./Manifest";
import { stage } from "./stage";
import { describeLimits, versionAddress } from "./words";

/** The installation of a package: select, upload, inspect and confirm. */
export function Install() {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button size="small" variant="primary" needs="skill.write" onClick={() => setOpen(true)}>
        Install a skill
      </Button>
      <Dialog open={open} onClose={close} title="Install a skill" wide>
        <InstallForm close={close} />
      </Dialog>
    </>
  );
}

function InstallForm({ close }: { close: () => void }) {
  const [uploadedBytes, setUploadedBytes] = useState(0);
  const [hasComparedKey, setHasComparedKey] = useState(false);
  const queries = useQueryClient();
  const go = useGo();
  const abort = useAbortableOperation();
  const upload = useMutation({
    mutationFn: async (file: File) => {
      const { signal } = abort();
      setUploadedBytes(0);
      setHasComparedKey(false);
      const digest = await stage(file, (part) => client(SkillService).stageSkill(part, { signal }), setUploadedBytes);
      return client(SkillService).inspectSkill({ digest }, { signal });
    },
  });
  const install = useMutation({
    // The digest guarantees that the inspected package is installed.
    mutationFn: ({ digest }: InspectSkillResponse) => client(SkillService).installSkill({ digest }, { signal: abort().signal }),
    onSuccess: async ({ skill }) => {
      await Promise.all(["skills", "publishers", "tools", "approvals"].map((key) => queries.invalidateQueries({ queryKey: [key] })));
      announce("The skill is installed.");
      close();
      if (skill !== undefined) go(versionAddress(skill));
    },
  });
  const inspection = upload.data;
  return (
    <div className="flex flex-col gap-3">
      <PackageField
        isDisabled={install.isPending}
        onFile={(file) => {
          install.reset();
          upload.mutate(file);
        }}
      />
      <div role="status">{upload.isPending && <p>{uploadedBytes.toLocaleString()} bytes uploaded…</p>}</div>
      {upload.isError && <ErrorState error={upload.error} />}
      {inspection !== undefined && <Inspection inspection={inspection} />}
      {inspection?.problem === "" && inspection.newPublisher && (
        <Checkbox label="I compared the id of the key with the publisher over another channel" checked={hasComparedKey} onChange={(event) => setHasComparedKey(event.target.checked)} />
      )}
      {install.isPending && <Notice>The gateway is installing the skill. If changes require two people, it asks the second one. You can leave this page: the skill is installed after the approval. You can withdraw the request in the approvals.</Notice>}
      {install.isError && <ErrorState error={install.error} />}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={close}>Cancel</Button>
        {inspection?.problem === "" && (
          <Button variant="primary" needs="skill.write" disabledReason={install.isPending ? "In progress." : inspection.newPublisher && !hasComparedKey ? "Compare the key first." : undefined} onClick={() => install.mutate(inspection)}>
            {inspection.newPublisher ? "Trust the key and install" : "Install"}
          </Button>
        )}
      </div>
    </div>
  );
}

/** Returns a function that aborts the previous operation and starts a new signal. Closing the dialog aborts it too. */
function useAbortableOperation(): () => AbortController {
  const last = useRef<AbortController>(undefined);
  useEffect(() => () => last.current?.abort(), []);
  return () => {
    last.current?.abort();
    last.current = new AbortController();
    return last.current;
  };
}

function PackageField({ isDisabled, onFile }: { isDisabled: boolean; onFile: (file: File) => void }) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        Package
      </label>
      <input
        id={id}
        type="file"
        accept=".palyra-skill"
        aria-describedby={`${id}-hint`}
        disabled={isDisabled}
        // Allow the same file to be selected again after a change.
        onClick={(event) => {
          event.currentTarget.value = "";
        }}
        className="w-full rounded-md border border-edge bg-page px-2.5 py-1.5 text-ink"
        onChange={(event) => {
          const file = event.target.files?.[0];
          if (file !== undefined) onFile(file);
        }}
      />
      <p id={`${id}-hint`} className="mt-1 text-sm text-quiet">
        A file that ends in .palyra-skill. The gateway verifies it; its code does not run before you confirm the installation.
      </p>
    </div>
  );
}

/** The inspected package: manifest, problems and new permissions. */
function Inspection({ inspection }: { inspection: InspectSkillResponse }) {
  const { manifest, replaces, gains } = inspection;
  return (
    <>
      {inspection.problem !== "" && (
        <Notice tone="bad">
          <p className="font-semibold">The package cannot be installed</p>
          <p>
            <Untrusted text={sentence(inspection.problem)} /> <CommandText text={inspection.remedy} />
          </p>
        </Notice>
      )}
      {inspection.problem === "" && inspection.newPublisher && (
        <Notice tone="warn">
          <p className="font-semibold">New publisher</p>
          <p>
            The installation pins the key below for <Untrusted text={manifest?.publisher ?? ""} className="font-mono" />. Packages of this publisher signed with other keys are then refused. Compare the key id with the publisher over another channel.
          </p>
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Skill", manifest !== undefined && <Untrusted text={`${manifest.id} ${manifest.version}`} className="font-mono font-semibold" />],
          ["Name", manifest !== undefined && <Untrusted text={manifest.name} />],
          ["Description", manifest !== undefined && manifest.description !== "" && <Untrusted text={manifest.description} />],
          ["Publisher", manifest !== undefined && <Untrusted text={manifest.publisher} className="font-mono" />],
          ["Signed by", inspection.keyId !== "" && <Id id={inspection.keyId} keep={60} />],
          ["License", manifest !== undefined && manifest.license !== "" && <Untrusted text={manifest.license} />],
          ["Homepage", manifest !== undefined && manifest.homepage !== "" && <Untrusted text={manifest.homepage} />],
          ["Limits", describeLimits(manifest?.quotas).join(", ")],
          ["Package", <Id id={inspection.digest} />],
          ["Replaces", replaces !== undefined && <Untrusted text={`version ${replaces.version}`} />],
        ]}
      />
      {replaces !== undefined &&
        (gains.length === 0 ? (
          <Notice tone="good">No permissions beyond the current version.</Notice>
        ) : (
          <Notice tone="warn">
            <PermissionList title="Permissions beyond the current version" texts={gains} />
          </Notice>
        ))}
      {manifest !== undefined && <ToolList manifest={manifest} />}
      <AuditFindings findings={inspection.findings} />
    </>
  );
}
