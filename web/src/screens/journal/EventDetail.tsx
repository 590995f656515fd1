import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import { useCan } from "../../api/whoami";
import { JournalService } from "../../gen/palyra/v1/journal_pb";
import { RunLink } from "../../shell/RunLink";
import { Screen, Section } from "../../shell/Screen";
import { ScreenLink } from "../../shell/router";
import { palyra } from "../../text/cli";
import { CopyAsCli, Id } from "../../ui/Copy";
import { Json } from "../../ui/Json";
import { KeyValue } from "../../ui/KeyValue";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** An event with its payload and its hashes. */
export function EventDetail({ seq }: { seq: bigint }) {
  const number = String(seq);
  const query = useQuery({ queryKey: ["journal-event", number], staleTime: Infinity, queryFn: ({ signal }) => client(JournalService).getEvent({ seq }, { signal }) });
  const event = query.data?.event;
  const canProve = useCan("journal.prove");
  return (
    <Screen
      title={event === undefined ? `Event ${number}` : `Event ${number}: ${event.code}`}
      command={palyra("journal", "show", number)}
      actions={
        <>
          <ScreenLink to="/journal">Journal</ScreenLink>
          {seq > 1n && <ScreenLink to={`/journal/${seq - 1n}`}>Previous</ScreenLink>}
          <ScreenLink to={`/journal/${seq + 1n}`}>Next</ScreenLink>
        </>
      }
    >
      {query.isPending ? (
        <Loading what="the event" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : event === undefined ? (
        <EmptyState title="Event not found" />
      ) : (
        <>
          <KeyValue
            rows={[
              ["Code", <ScreenLink to={`/journal?q=code:${event.code}`}>{event.code}</ScreenLink>],
              ["When", <Time at={event.at} full />],
              ["Actor", event.actor !== "" && <FilterLink facet="actor" value={event.actor} />],
              ["Subject", event.subject !== "" && <FilterLink facet="subject" value={event.subject} />],
              ["Session", event.session !== "" && <FilterLink facet="session" value={event.session} />],
              ["Run", event.run !== "" && <RunLink run={event.run} />],
              ["Id", <Id id={event.eventId} keep={26} />],
            ]}
          />
          <Section title="Payload">
            <Json bytes={event.payloadJson} />
          </Section>
          <Section title="Integrity" actions={canProve && <CopyAsCli command={palyra("journal", "prove", number)} />}>
            <KeyValue
              rows={[
                ["Hash", <Id id={event.hash} keep={24} />],
                ["Previous hash", <Id id={event.prevHash} keep={24} />],
                ["SHA-256 of the payload", <Id id={event.payloadSha256} keep={24} />],
              ]}
            />
            <p className="text-sm text-quiet">
              The hash covers the previous hash, so that a changed, inserted or removed earlier event is detected. Prove it independently of this page: <code className="font-mono">{palyra("journal", "prove", number)}</code>
            </p>
          </Section>
        </>
      )}
    </Screen>
  );
}

function FilterLink({ facet, value }: { facet: string; value: string }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-3">
      <Untrusted text={value} />
      <ScreenLink to={`/journal?q=${encodeURIComponent(`${facet}:${/[\s,"\\]/.test(value) ? JSON.stringify(value) : value}`)}`}>All events</ScreenLink>
    </span>
  );
}
