import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { failure } from "../../api/errors";
import { client } from "../../api/transport";
import { useCan, useWhoami } from "../../api/whoami";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import type { CreatePairingCodeResponse, Pairing } from "../../gen/palyra/v1/pairing_pb";
import { PairingKind, PairingService, PairingState } from "../../gen/palyra/v1/pairing_pb";
import { Screen } from "../../shell/Screen";
import { ScreenLink } from "../../shell/router";
import { useLiveEvents } from "../../live/context";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Copy, Id } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Checkbox, Select, TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { addressProblem, renderQrCode, isLoopback, pairingLink } from "./pairing";

const mostGuesses = 5;

/** The active pairings, and the dialog that creates a code for another machine. */
export default function Pairings() {
  const [isCreating, setIsCreating] = useState(false);
  const query = useQuery({ queryKey: ["pairings"], queryFn: ({ signal }) => client(PairingService).listPairings({}, { signal }) });
  const queries = useQueryClient();
  // The use of a code creates an approval, and its answer creates a device.
  useLiveEvents((event) => {
    if (event.kind === "approval" || event.kind === "member" || event.kind === "reset") void queries.invalidateQueries({ queryKey: ["pairings"] });
  });
  return (
    <Screen
      title="Pairing"
      command={palyra("pairing", "list")}
      actions={
        <>
          <ScreenLink to="/devices">All devices</ScreenLink>
          <Button size="small" variant="primary" needs="device.pair" onClick={() => setIsCreating(true)}>
            Pair a device
          </Button>
        </>
      }
    >
      {query.isPending ? (
        <Loading what="pairings" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.pairings.length === 0 ? (
        <EmptyState title="No pairings">A code allows another machine to request a certificate. It works once, and a member must approve the machine.</EmptyState>
      ) : (
        <ul className="flex flex-col gap-3">
          {query.data.pairings.map((pairing) => (
            <li key={pairing.pairingId} className="rounded-lg border border-line bg-panel p-3">
              <PairingItem pairing={pairing} />
            </li>
          ))}
        </ul>
      )}
      {isCreating && <CreateCodeDialog onClose={() => setIsCreating(false)} />}
    </Screen>
  );
}

function PairingItem({ pairing }: { pairing: Pairing }) {
  const isRequested = pairing.state === PairingState.ASKED;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span className="flex flex-wrap items-center gap-2">
          <code className="font-mono font-semibold">{pairing.pairingId}</code>
          <Badge>{pairing.codeKind === PairingKind.QR ? "QR" : "PIN"}</Badge>
          <State pairing={pairing} />
        </span>
        <ActionButton label="End" title="End this pairing?" confirmLabel="End the pairing" announcement="The pairing is ended." variant="bad" needs="device.pair" keys={["pairings"]} run={() => client(PairingService).cancelPairing({ pairingId: pairing.pairingId })}>
          <p>The code allows no more attempts, and if a machine already used it, the approval is withdrawn. A device that has its certificate keeps it.</p>
        </ActionButton>
      </div>
      {isRequested && (
        <Notice tone="warn">
          <p>
            A machine used the code and requests a certificate. It must display the same six digits: <Comparison digits={pairing.comparison} />. If they differ, deny the request: the connection is intercepted.
          </p>
          {pairing.approvalId !== "" && <ScreenLink to={`/approvals/${pairing.approvalId}`}>Go to the approval</ScreenLink>}
        </Notice>
      )}
      <KeyValue
        rows={[
          ["For", <Untrusted text={pairing.newMember ? `${pairing.member} (new)` : pairing.member} />],
          ["Roles", <Untrusted text={pairing.roles.join(", ")} />],
          ["Acts for", pairing.owner !== "" && <Untrusted text={pairing.owner} />],
          ["Created by", <Untrusted text={pairing.madeBy} />],
          ["Created", <Time at={pairing.createdAt} />],
          ["Attempts", pairing.state === PairingState.OPEN && `${pairing.guesses} of ${mostGuesses}`],
          ["Machine", pairing.deviceName !== "" && <Untrusted text={pairing.deviceName} />],
          ["From", pairing.address !== "" && <Untrusted text={pairing.address} className="font-mono" />],
          ["Key", pairing.keySha256 !== "" && <Id id={pairing.keySha256} />],
        ]}
      />
    </div>
  );
}

function Comparison({ digits }: { digits: string }) {
  return <strong className="font-mono text-lg whitespace-nowrap">{digits}</strong>;
}

function State({ pairing }: { pairing: Pairing }) {
  switch (pairing.state) {
    case PairingState.OPEN:
      if (pairing.guesses >= mostGuesses) return <Badge tone="bad">no attempts left</Badge>;
      return (
        <>
          <Badge tone="accent">open</Badge>
          <Countdown until={pairing.expiresAt} />
        </>
      );
    case PairingState.ASKED:
      return <Badge tone="warn">pending approval</Badge>;
    default:
      return <Badge tone="good">certificate issued</Badge>;
  }
}

const minute = 60_000;

function CreateCodeDialog({ onClose }: { onClose: () => void }) {
  const [kind, setKind] = useState("qr");
  const [memberKind, setMemberKind] = useState("mine");
  const [member, setMember] = useState("");
  const [roles, setRoles] = useState("operator");
  const [owner, setOwner] = useState("");
  const [ttl, setTtl] = useState("10");
  const [acceptsLoss, setAcceptsLoss] = useState(false);
  const suggested = useAddress();
  const [input, setInput] = useState<string | undefined>(undefined);
  const address = input ?? suggested;
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () =>
      client(PairingService).createPairingCode({
        kind: kind === "qr" ? PairingKind.QR : PairingKind.PIN,
        member: memberKind === "mine" ? "" : member.trim(),
        newMember: memberKind === "new",
        roles: memberKind === "new" ? roles.split(/[\s,]+/).filter(Boolean) : [],
        owner: memberKind === "new" ? owner.trim() : "",
        ttl: durationFromMs(Number(ttl) * minute),
        acceptLoss: acceptsLoss,
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["pairings"] }),
  });
  if (create.data?.pairing !== undefined) return <CodeDialog response={create.data} pairing={create.data.pairing} address={address} onClose={onClose} />;
  const disabledReason = create.isPending ? "In progress." : (addressProblem(address) ?? (memberKind !== "mine" && member.trim() === "" ? "Enter the member." : undefined));
  const needsLossConsent = create.isError && failure(create.error).reason === "LOSS_NOT_ACCEPTED";
  return (
    <Dialog open onClose={onClose} title="Pair a device" description="The other machine creates its own key. Its request requires your approval.">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (disabledReason === undefined) create.mutate();
        }}
      >
        <Select
          label="Code"
          value={kind}
          onChange={(event) => setKind(event.target.value)}
          options={[
            { value: "qr", label: "QR code, and an equivalent link" },
            { value: "pin", label: "PIN of eight digits to type" },
          ]}
        />
        <TextField
          label="The gateway's address for the other machine"
          className="font-mono"
          placeholder="192.0.2.7:7443"
          hint={address !== "" && isLoopback(address) ? "This address is reachable only from the gateway's machine. For another machine, enter the gateway's address as in listen.api, with listen.allow_remote." : addressProblem(address)}
          value={address}
          onChange={(event) => setInput(event.target.value.trim())}
        />
        <Select
          label="Owner of the device"
          value={memberKind}
          onChange={(event) => setMemberKind(event.target.value)}
          options={[
            { value: "mine", label: "You" },
            { value: "other", label: "Another member" },
            { value: "new", label: "A new member" },
          ]}
        />
        {memberKind !== "mine" && <TextField label={memberKind === "new" ? "Name of the new member" : "Member"} value={member} onChange={(event) => setMember(event.target.value)} />}
        {memberKind === "new" && (
          <>
            <TextField label="Roles" hint="Separated by spaces: operator, developer, auditor, admin, owner; agent for an agent." value={roles} onChange={(event) => setRoles(event.target.value)} />
            <TextField label="Acts for" hint="For an agent: the user for whom it acts. Leave it empty for a user." value={owner} onChange={(event) => setOwner(event.target.value)} />
          </>
        )}
        <Select label="Valid for" value={ttl} onChange={(event) => setTtl(event.target.value)} options={["2", "10", "30", "60"].map((minutes) => ({ value: minutes, label: `${minutes} minutes` }))} />
        {create.isError && <ErrorState error={create.error} />}
        {needsLossConsent && <Checkbox label="Continue anyway" checked={acceptsLoss} onChange={(event) => setAcceptsLoss(event.target.checked)} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" needs="device.pair" disabledReason={disabledReason}>
            Create the code
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

// Returns the address of the API; "" if the caller may not read the settings.
function useAddress(): string {
  const can = useCan("config.read");
  const query = useQuery({ queryKey: ["settings"], enabled: can, queryFn: ({ signal }) => client(ConsoleService).getSettings({}, { signal }) });
  const toml = query.data?.settings.find((setting) => setting.key === "listen.api")?.toml ?? "";
  const listens = /^"([^"\\]*)"$/.exec(toml)?.[1] ?? "";
  // For a gateway that listens on all addresses, use the host name of this page.
  return listens.replace(/^(?:0\.0\.0\.0|\[::\])?(?=:\d+$)/, location.hostname);
}

/** The code with its secret, which the gateway returns only once. */
function CodeDialog({ response, pairing, address, onClose }: { response: CreatePairingCodeResponse; pairing: Pairing; address: string; onClose: () => void }) {
  const ca = useWhoami()?.caFingerprint ?? "";
  const qr = pairing.codeKind === PairingKind.QR;
  const link = qr ? pairingLink(address, ca, pairing.pairingId, response.secret) : "";
  const command = palyra("pair", ...(qr ? [link] : [address, "--code", pairing.pairingId]));
  return (
    <Dialog open onClose={onClose} title={qr ? "Scan this code, or run the command on the other machine" : "Type this PIN on the other machine"}>
      <div className="flex flex-col gap-3">
        <Notice tone="warn">The code is shown only here and works once. Anyone who has it can request access.</Notice>
        {qr ? <QrCodeImage text={link} /> : <p className="text-center font-mono text-3xl tracking-widest">{`${response.secret.slice(0, 4)} ${response.secret.slice(4)}`}</p>}
        <KeyValue
          rows={[
            ["Pairing", <code className="font-mono">{pairing.pairingId}</code>],
            ["For", <Untrusted text={pairing.newMember ? `${pairing.member} (new)` : pairing.member} />],
            ["Valid for", <Countdown until={pairing.expiresAt} announce />],
          ]}
        />
        <p>Run on the other machine:</p>
        <code className="rounded border border-line bg-panel p-3 font-mono text-sm break-all">{command}</code>
        <p>That machine then shows six digits. Compare them with those of the approval, and allow it only if they are equal.</p>
        <div className="flex flex-wrap justify-end gap-2">
          <Copy text={command} label="Copy the command" />
          <Button variant="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

// Scanners require a margin of four light modules, and dark modules on a light background in both themes.
function QrCodeImage({ text }: { text: string }) {
  const { size, path } = useMemo(() => renderQrCode(text), [text]);
  return (
    <svg role="img" aria-label="QR code of the link below" viewBox={`-4 -4 ${size + 8} ${size + 8}`} shapeRendering="crispEdges" className="mx-auto w-full max-w-80">
      <rect x={-4} y={-4} width={size + 8} height={size + 8} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
