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

/** The record: what happened, in the order in which it was sealed. */
export default function Journal() {
  const seq = useParam("seq");
  return /^[1-9]\d{0,15}$/.test(seq) ? <EventDetail key={seq} seq={BigInt(seq)} /> : <All />;
}

function ExportJournal() {
  return (
    <Export
      what="journal"
      needs="journal.export"
      says="All events, whatever the filter shows, with the checkpoint that signs them. The verifiers read NDJSON; each form has the same lines."
      command={(form) => palyra("journal", "export", `journal.${form}`, ...(form === "ndjson" ? [] : ["--format", form]))}
      read={(form, signal) => client(JournalService).exportJournal({ format: exportForms[form].format }, { signal })}
    />
  );
}

function All() {
  const [line, setLine] = useQueryParam("q");
  return (
    <Screen title="Journal" command={listCommand(parseFilter(line, facets))} actions={<ExportJournal />}>
      <Events line={line} onLine={setLine} />
    </Screen>
  );
}
