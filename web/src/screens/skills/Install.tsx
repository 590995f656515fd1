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
import { ErrorState, Notice, Words } from "../../ui/State";
import { Untrusted } from "../../ui/Untrusted";
import { Asks, Found, ToolsOf } from "./Manifest";
import { stage } from "./stage";
import { bounds, placeOf } from "./words";

/** Installs a package: it is chosen, brought to the gateway, looked at, and agreed to. */
export function Install() {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button size="small" look="primary" needs="skill.write" onClick={() => setOpen(true)}>
        Install a skill
      </Button>
      <Dialog open={open} onClose={close} title="Install a skill" wide>
        <Steps close={close} />
      </Dialog>
    </>
  );
}

function Steps({ close }: { close: () => void }) {
  const [brought, setBrought] = useState(0);
  const [compared, setCompared] = useState(false);
  const queries = useQueryClient();
  const go = useGo();
  const abort = useLeaving();
  const bring = useMutation({
    mutationFn: async (file: File) => {
      const { signal } = abort();
      setBrought(0);
      setCompared(false);
      const digest = await stage(file, (part) => client(SkillService).stageSkill(part, { signal }), setBrought);
      return client(SkillService).inspectSkill({ digest }, { signal });
    },
  });
  const install = useMutation({
    // What is installed is what is shown, by its digest.
    mutationFn: ({ digest }: InspectSkillResponse) => client(SkillService).installSkill({ digest }, { signal: abort().signal }),
    onSuccess: async ({ skill }) => {
      await Promise.all(["skills", "publishers", "tools", "approvals"].map((key) => queries.invalidateQueries({ queryKey: [key] })));
      announce("The skill is installed.");
      close();
      if (skill !== undefined) go(placeOf(skill));
    },
  });
  const seen = bring.data;
  return (
    <div className="flex flex-col gap-3">
      <Choose
        off={install.isPending}
        onFile={(file) => {
          install.reset();
          bring.mutate(file);
        }}
      />
      <div role="status">{bring.isPending && <p>The gateway has {brought.toLocaleString()} bytes of it…</p>}</div>
      {bring.isError && <ErrorState error={bring.error} />}
      {seen !== undefined && <Seen seen={seen} />}
      {seen?.problem === "" && seen.newPublisher && (
        <Checkbox label="I compared the id of the key with what the publisher told me over another way" checked={compared} onChange={(event) => setCompared(event.target.checked)} />
      )}
      {install.isPending && <Notice>The gateway installs it. Where changes take two people, it asks the second one. You may leave this page: the skill is installed once they approve. The inbox has the request, and there you can withdraw it.</Notice>}
      {install.isError && <ErrorState error={install.error} />}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={close}>Leave it</Button>
        {seen?.problem === "" && (
          <Button look="primary" needs="skill.write" off={install.isPending ? "On its way." : seen.newPublisher && !compared ? "Compare the key first." : undefined} onClick={() => install.mutate(seen)}>
            {seen.newPublisher ? "Trust the key and install this" : "Install this"}
          </Button>
        )}
      </div>
    </div>
  );
}

/** Gives a signal to what is begun; it ends what was begun before, and when the dialog is left. */
function useLeaving(): () => AbortController {
  const last = useRef<AbortController>(undefined);
  useEffect(() => () => last.current?.abort(), []);
  return () => {
    last.current?.abort();
    last.current = new AbortController();
    return last.current;
  };
}

function Choose({ off, onFile }: { off: boolean; onFile: (file: File) => void }) {
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
        disabled={off}
        // A file that was changed since can be chosen again.
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
        A file that ends in .palyra-skill. The gateway reads and verifies it; nothing of it runs before you say yes.
      </p>
    </div>
  );
}

/** What an installation would be about. */
function Seen({ seen }: { seen: InspectSkillResponse }) {
  const { manifest, replaces, gains } = seen;
  return (
    <>
      {seen.problem !== "" && (
        <Notice tone="bad">
          <p className="font-semibold">It cannot be installed</p>
          <p>
            <Untrusted text={sentence(seen.problem)} /> <Words text={seen.remedy} />
          </p>
        </Notice>
      )}
      {seen.problem === "" && seen.newPublisher && (
        <Notice tone="warn">
          <p className="font-semibold">The publisher is new here</p>
          <p>
            To install it pins the key below for <Untrusted text={manifest?.publisher ?? ""} className="font-mono" />, and what another key signs under this name is refused from then on. Ask the publisher for its id over another way than the package took.
          </p>
        </Notice>
      )}
      <KeyValue
        rows={[
          ["Skill", manifest !== undefined && <Untrusted text={`${manifest.id} ${manifest.version}`} className="font-mono font-semibold" />],
          ["Name", manifest !== undefined && <Untrusted text={manifest.name} />],
          ["Description", manifest !== undefined && manifest.description !== "" && <Untrusted text={manifest.description} />],
          ["Publisher", manifest !== undefined && <Untrusted text={manifest.publisher} className="font-mono" />],
          ["Signed by", seen.keyId !== "" && <Id id={seen.keyId} keep={60} />],
          ["License", manifest !== undefined && manifest.license !== "" && <Untrusted text={manifest.license} />],
          ["Homepage", manifest !== undefined && manifest.homepage !== "" && <Untrusted text={manifest.homepage} />],
          ["Holds itself to", bounds(manifest?.quotas).join(", ")],
          ["Package", <Id id={seen.digest} />],
          ["Replaces", replaces !== undefined && <Untrusted text={`version ${replaces.version}`} />],
        ]}
      />
      {replaces !== undefined &&
        (gains.length === 0 ? (
          <Notice tone="good">It asks for nothing beyond what runs now.</Notice>
        ) : (
          <Notice tone="warn">
            <Asks title="Beyond what runs now it asks for" texts={gains} />
          </Notice>
        ))}
      {manifest !== undefined && <ToolsOf manifest={manifest} />}
      <Found findings={seen.findings} />
    </>
  );
}
