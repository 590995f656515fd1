import { client } from "../../api/transport";
import { JournalService } from "../../gen/palyra/v1/journal_pb";
import { Screen } from "../../shell/Screen";
import { useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { Export } from "../../ui/Export";
import { parseFilter } from "../../ui/filter";
import { exportForms } from "../../ui/save";
import { EventDetail } from "./EventDetail";
import { Events } from "./Events";
import { facets, listCommand } from "./filter";

/** The journal: its events, or one event. */
export default function Journal() {
  const seq = useParam("seq");
  return /^[1-9]\d{0,15}$/.test(seq) ? <EventDetail key={seq} seq={BigInt(seq)} /> : <JournalPage />;
}

function ExportJournal() {
  return (
    <Export
      noun="journal"
      needs="journal.export"
      description="All events regardless of the filter, with the checkpoint that signs them. The verifiers read NDJSON; all formats have the same records."
      command={(form) => palyra("journal", "export", `journal.${form}`, ...(form === "ndjson" ? [] : ["--format", form]))}
      read={(form, signal) => client(JournalService).exportJournal({ format: exportForms[form].format }, { signal })}
    />
  );
}

function JournalPage() {
  const [line, setLine] = useQueryParam("q");
  return (
    <Screen title="Journal" command={listCommand(parseFilter(line, facets))} actions={<ExportJournal />}>
      <Events line={line} onLineChange={setLine} />
    </Screen>
  );
}
