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
import { Act } from "../../ui/Act";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Copy, Id } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Checkbox, Select, TextField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";
import { addressProblem, draw, onlyHere, pairingLink } from "./pairing";

const mostGuesses = 5;

/** The pairing codes that have not ended, and how another machine gets in. */
export default function Pairings() {
  const [making, setMaking] = useState(false);
  const query = useQuery({ queryKey: ["pairings"], queryFn: ({ signal }) => client(PairingService).listPairings({}, { signal }) });
  const queries = useQueryClient();
  // A machine that knows the secret makes an ask; its answer makes a device.
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
          <Button size="small" look="primary" needs="device.pair" onClick={() => setMaking(true)}>
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
        <EmptyState title="No code is open">A code lets one other machine ask for a certificate. It works once, and somebody has to allow the machine.</EmptyState>
      ) : (
        <ul className="flex flex-col gap-3">
          {query.data.pairings.map((pairing) => (
            <li key={pairing.pairingId} className="rounded-lg border border-line bg-panel p-3">
              <One pairing={pairing} />
            </li>
          ))}
        </ul>
      )}
      {making && <Make onClose={() => setMaking(false)} />}
    </Screen>
  );
}

function One({ pairing }: { pairing: Pairing }) {
  const asked = pairing.state === PairingState.ASKED;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span className="flex flex-wrap items-center gap-2">
          <code className="font-mono font-semibold">{pairing.pairingId}</code>
          <Badge>{pairing.codeKind === PairingKind.QR ? "QR" : "PIN"}</Badge>
          <State pairing={pairing} />
        </span>
        <Act label="Cancel" title="End this pairing?" does="End the pairing" said="The pairing is ended." look="bad" needs="device.pair" keys={["pairings"]} run={() => client(PairingService).cancelPairing({ pairingId: pairing.pairingId })}>
          <p>Its code takes no more guesses, and if a machine used it already, the ask about it is withdrawn. A device that has its certificate keeps it.</p>
        </Act>
      </div>
      {asked && (
        <Notice tone="warn">
          <p>
            A machine knew the secret and asks to be let in. It has to show the same six digits: <Comparison digits={pairing.comparison} />. If they differ, deny it: somebody is in the middle.
          </p>
          {pairing.approvalId !== "" && <ScreenLink to={`/approvals/${pairing.approvalId}`}>Go to the ask</ScreenLink>}
        </Notice>
      )}
      <KeyValue
        rows={[
          ["For", <Untrusted text={pairing.newMember ? `${pairing.member} (new)` : pairing.member} />],
          ["Roles", <Untrusted text={pairing.roles.join(", ")} />],
          ["Acts for", pairing.owner !== "" && <Untrusted text={pairing.owner} />],
          ["Made by", <Untrusted text={pairing.madeBy} />],
          ["Made", <Time at={pairing.createdAt} />],
          ["Guesses", pairing.state === PairingState.OPEN && `${pairing.guesses} of ${mostGuesses}`],
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
      if (pairing.guesses >= mostGuesses) return <Badge tone="bad">no guess left</Badge>;
      return (
        <>
          <Badge tone="accent">open</Badge>
          <Countdown until={pairing.expiresAt} />
        </>
      );
    case PairingState.ASKED:
      return <Badge tone="warn">waits for a yes</Badge>;
    default:
      return <Badge tone="good">has its certificate</Badge>;
  }
}

const minute = 60_000;

function Make({ onClose }: { onClose: () => void }) {
  const [kind, setKind] = useState("qr");
  const [whose, setWhose] = useState("mine");
  const [member, setMember] = useState("");
  const [roles, setRoles] = useState("operator");
  const [owner, setOwner] = useState("");
  const [ttl, setTtl] = useState("10");
  const [loss, setLoss] = useState(false);
  const suggested = useAddress();
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const address = typed ?? suggested;
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: () =>
      client(PairingService).createPairingCode({
        kind: kind === "qr" ? PairingKind.QR : PairingKind.PIN,
        member: whose === "mine" ? "" : member.trim(),
        newMember: whose === "new",
        roles: whose === "new" ? roles.split(/[\s,]+/).filter(Boolean) : [],
        owner: whose === "new" ? owner.trim() : "",
        ttl: durationFromMs(Number(ttl) * minute),
        acceptLoss: loss,
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["pairings"] }),
  });
  if (make.data?.pairing !== undefined) return <Made made={make.data} pairing={make.data.pairing} address={address} onClose={onClose} />;
  const off = make.isPending ? "On its way." : (addressProblem(address) ?? (whose !== "mine" && member.trim() === "" ? "Name the member." : undefined));
  const losing = make.isError && failure(make.error).reason === "LOSS_NOT_ACCEPTED";
  return (
    <Dialog open onClose={onClose} title="Pair a device" description="The other machine makes its own key. You will be asked to allow it.">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (off === undefined) make.mutate();
        }}
      >
        <Select
          label="Code"
          value={kind}
          onChange={(event) => setKind(event.target.value)}
          options={[
            { value: "qr", label: "QR code, or a link with the same" },
            { value: "pin", label: "PIN of eight digits, typed there" },
          ]}
        />
        <TextField
          label="Where the other machine reaches the gateway"
          className="font-mono"
          placeholder="192.0.2.7:7443"
          hint={address !== "" && onlyHere(address) ? "This is the gateway's own machine alone. For another one, name the address by which it is reached; listen.api has to be it, with listen.allow_remote." : addressProblem(address)}
          value={address}
          onChange={(event) => setTyped(event.target.value.trim())}
        />
        <Select
          label="Whose device"
          value={whose}
          onChange={(event) => setWhose(event.target.value)}
          options={[
            { value: "mine", label: "Yours" },
            { value: "other", label: "Another member's" },
            { value: "new", label: "A new member's" },
          ]}
        />
        {whose !== "mine" && <TextField label={whose === "new" ? "Name of the new member" : "Member"} value={member} onChange={(event) => setMember(event.target.value)} />}
        {whose === "new" && (
          <>
            <TextField label="Roles" hint="Separated by spaces: operator, developer, auditor, admin, owner; agent for an agent." value={roles} onChange={(event) => setRoles(event.target.value)} />
            <TextField label="Acts for" hint="For an agent: the user for whom it acts. Empty for a user." value={owner} onChange={(event) => setOwner(event.target.value)} />
          </>
        )}
        <Select label="It works for" value={ttl} onChange={(event) => setTtl(event.target.value)} options={["2", "10", "30", "60"].map((minutes) => ({ value: minutes, label: `${minutes} minutes` }))} />
        {make.isError && <ErrorState error={make.error} />}
        {losing && <Checkbox label="Go on all the same" checked={loss} onChange={(event) => setLoss(event.target.checked)} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Leave it</Button>
          <Button type="submit" look="primary" needs="device.pair" off={off}>
            Make the code
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

// Where the API listens, for those who may read the settings; others know it themselves.
function useAddress(): string {
  const can = useCan("config.read");
  const query = useQuery({ queryKey: ["settings"], enabled: can, queryFn: ({ signal }) => client(ConsoleService).getSettings({}, { signal }) });
  const toml = query.data?.settings.find((setting) => setting.key === "listen.api")?.toml ?? "";
  const listens = /^"([^"\\]*)"$/.exec(toml)?.[1] ?? "";
  // A gateway that listens on every address is reached by the name that the page came by.
  return listens.replace(/^(?:0\.0\.0\.0|\[::\])?(?=:\d+$)/, location.hostname);
}

/** The code, once: the gateway keeps no secret of it. */
function Made({ made, pairing, address, onClose }: { made: CreatePairingCodeResponse; pairing: Pairing; address: string; onClose: () => void }) {
  const ca = useWhoami()?.caFingerprint ?? "";
  const qr = pairing.codeKind === PairingKind.QR;
  const link = qr ? pairingLink(address, ca, pairing.pairingId, made.secret) : "";
  const command = palyra("pair", ...(qr ? [link] : [address, "--code", pairing.pairingId]));
  return (
    <Dialog open onClose={onClose} title={qr ? "Scan this, or run the command there" : "Type this there"}>
      <div className="flex flex-col gap-3">
        <Notice tone="warn">It is shown here alone, and works once. Whoever has it can ask to be let in.</Notice>
        {qr ? <Code text={link} /> : <p className="text-center font-mono text-3xl tracking-widest">{`${made.secret.slice(0, 4)} ${made.secret.slice(4)}`}</p>}
        <KeyValue
          rows={[
            ["Pairing", <code className="font-mono">{pairing.pairingId}</code>],
            ["For", <Untrusted text={pairing.newMember ? `${pairing.member} (new)` : pairing.member} />],
            ["Works for", <Countdown until={pairing.expiresAt} loud />],
          ]}
        />
        <p>Run there:</p>
        <code className="rounded border border-line bg-panel p-3 font-mono text-sm break-all">{command}</code>
        <p>Then that machine shows six digits. Compare them with those of the ask that comes here, and allow it only if they are the same.</p>
        <div className="flex flex-wrap justify-end gap-2">
          <Copy text={command} label="Copy the command" />
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

// Four light modules around it, which readers need; dark on light in both themes, for the same reason.
function Code({ text }: { text: string }) {
  const { size, path } = useMemo(() => draw(text), [text]);
  return (
    <svg role="img" aria-label="QR code of the link below" viewBox={`-4 -4 ${size + 8} ${size + 8}`} shapeRendering="crispEdges" className="mx-auto w-full max-w-80">
      <rect x={-4} y={-4} width={size + 8} height={size + 8} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
