import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Secret, SecretLease } from "../../gen/palyra/v1/vault_pb";
import { VaultService } from "../../gen/palyra/v1/vault_pb";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink, useParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Copy } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Countdown, Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The secrets of the vault. A value is displayed only on request, and each request is recorded. */
export default function Vault() {
  const ref = useParam("ref");
  return ref === "" ? <VaultPage /> : <SecretPage key={ref} name={ref} />;
}

function VaultPage() {
  const status = useQuery({ queryKey: ["vault", "status"], queryFn: ({ signal }) => client(VaultService).getVaultStatus({}, { signal }) });
  const query = useInfiniteQuery({
    queryKey: ["vault", "list"],
    queryFn: ({ pageParam, signal }) => client(VaultService).listSecrets({ pageSize: 500, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => (page.nextPageToken === "" ? undefined : page.nextPageToken),
  });
  const rows = query.data?.pages.flatMap((page) => page.secrets) ?? [];
  return (
    <Screen title="Vault" command={palyra("vault", "list")} fill>
      {status.data !== undefined && (
        <div className="flex flex-wrap items-center gap-2 text-sm text-quiet">
          <Badge tone={status.data.locked ? "bad" : "good"}>{status.data.locked ? "locked" : "open"}</Badge>
          <span>
            key <code className="font-mono">{status.data.keyId}</code> in <Untrusted text={status.data.place} />
          </span>
          <span>{status.data.exportedAt === undefined ? "no recovery export yet" : <>recovery export <Time at={status.data.exportedAt} /></>}</span>
        </div>
      )}
      {status.data !== undefined && status.data.problem !== "" && (
        <Notice tone="warn">
          <Untrusted text={status.data.problem} />
        </Notice>
      )}
      {query.isPending ? (
        <Loading what="secrets" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title="No secrets are visible to you">
          Add one with <code className="font-mono">{palyra("vault", "put", "global/NAME")}</code>
        </EmptyState>
      ) : (
        <Table
          label="Secrets"
          rows={rows}
          rowKey={(secret) => secret.ref}
          href={(secret) => `/vault/${encodeURIComponent(secret.ref)}`}
          columns={[
            { id: "ref", label: "Secret", className: "grow", cell: (secret) => <Untrusted text={secret.ref} line={120} /> },
            { id: "hosts", label: "Hosts", className: "w-64 max-md:hidden", cell: (secret) => <Untrusted text={secret.hosts.join(", ") || "none"} line={60} /> },
            { id: "used", label: "Last used", className: "w-28 max-sm:hidden", cell: (secret) => <Time at={secret.lastUsedAt} /> },
            { id: "version", label: "Version", className: "w-20 text-right", cell: (secret) => (secret.problem !== "" ? <Badge tone="bad">damaged</Badge> : secret.ended !== "" ? <Badge tone="bad">ended</Badge> : secret.version) },
          ]}
          onEnd={() => {
            if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
          }}
          end={query.hasNextPage ? "Scroll for more." : "End of the list."}
        />
      )}
      {status.data !== undefined && status.data.leases.length > 0 && <Leases leases={status.data.leases} />}
    </Screen>
  );
}

function Leases({ leases }: { leases: readonly SecretLease[] }) {
  return (
    <Section title="Active leases">
      <ul className="flex flex-col gap-1 text-sm">
        {leases.map((lease) => (
          <li key={lease.leaseId} className="flex flex-wrap gap-2">
            <Untrusted text={lease.ref} line={80} /> by <Untrusted text={lease.principal} line={60} />
            <Countdown until={lease.endsAt} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function SecretPage({ name }: { name: string }) {
  const query = useQuery({ queryKey: ["vault", "secret", name], queryFn: ({ signal }) => client(VaultService).getSecret({ ref: name }, { signal }) });
  const secret = query.data?.secret;
  return (
    <Screen
      title={name}
      command={palyra("vault", "show", name)}
      actions={
        <>
          <ScreenLink to="/vault">All secrets</ScreenLink>
          {secret !== undefined && <RevealButton secret={secret} />}
          {secret !== undefined && (
            <ActionButton label="Remove" title="Remove this secret?" confirmLabel="Remove the secret" announcement="The secret is removed." variant="bad" needs="vault.delete" keys={["vault"]} run={() => client(VaultService).removeSecret({ ref: secret.ref })}>
              <p>
                This removes <Untrusted text={secret.ref} /> with all its versions. Calls that use it lose access. This cannot be undone.
              </p>
            </ActionButton>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the secret" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : secret === undefined ? (
        <EmptyState title="Secret not found" />
      ) : (
        <>
          {secret.problem !== "" && (
            <Notice tone="bad">
              <Untrusted text={secret.problem} />
            </Notice>
          )}
          {secret.ended !== "" && (
            <Notice tone="bad">
              <Untrusted text={secret.ended} />
            </Notice>
          )}
          <KeyValue
            rows={[
              ["Holder", secret.holder !== "" && <Untrusted text={secret.holder} />],
              ["Note", secret.note !== "" && <Untrusted text={secret.note} />],
              ["Hosts", secret.hosts.length > 0 && <Untrusted text={secret.hosts.join(", ")} />],
              ["Header", secret.header],
              ["Environment variable", secret.env],
              ["File", secret.file],
              ["Created", <Time at={secret.createdAt} full />],
              ["Changed", <Time at={secret.updatedAt} full />],
              ["Last used", <Time at={secret.lastUsedAt} full />],
              ["Expires", secret.expiresAt !== undefined && <Time at={secret.expiresAt} full />],
            ]}
          />
          <Section title="Versions">
            <ul className="flex flex-col gap-1">
              {secret.versions.map((version) => (
                <li key={version.version} className="flex flex-wrap gap-3">
                  <span className="w-8 tabular-nums">{version.version}</span>
                  <Time at={version.createdAt} full />
                  <Untrusted text={version.createdBy} line={60} />
                </li>
              ))}
            </ul>
          </Section>
        </>
      )}
    </Screen>
  );
}

/** A dialog that displays a value on request. The value is not cached and is discarded with the dialog. */
function RevealButton({ secret }: { secret: Secret }) {
  const [open, setOpen] = useState(false);
  const reveal = useMutation({ gcTime: 0, mutationFn: () => client(VaultService).revealSecret({ ref: secret.ref }) });
  const close = () => {
    setOpen(false);
    reveal.reset();
  };
  const value = reveal.data === undefined ? undefined : new TextDecoder().decode(reveal.data.value);
  return (
    <>
      <Button size="small" needs="vault.get" onClick={() => setOpen(true)}>
        Reveal
      </Button>
      <Dialog open={open} onClose={close} title="Reveal the value?">
        <div className="flex flex-col gap-3">
          <p>The journal records your request with your name and this version.</p>
          {reveal.isError && <ErrorState error={reveal.error} />}
          {value !== undefined && <Untrusted block text={value} />}
          <div className="flex justify-end gap-2">
            {value !== undefined && <Copy text={value} label="Copy the value" />}
            <Button onClick={close}>Close</Button>
            {value === undefined && (
              <Button variant="primary" disabledReason={reveal.isPending ? "In progress." : undefined} onClick={() => reveal.mutate()}>
                Reveal value
              </Button>
            )}
          </div>
        </div>
      </Dialog>
    </>
  );
}
