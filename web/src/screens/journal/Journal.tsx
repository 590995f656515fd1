import { Screen } from "../../shell/Screen";
import { useParam, useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { parseFilter } from "../../ui/filter";
import { Tabs } from "../../ui/Tabs";
import { EventDetail } from "./EventDetail";
import { Events } from "./Events";
import { facets, listCommand } from "./filter";

/** The record: what happened, in the order in which it was sealed. */
export default function Journal() {
  const seq = useParam("seq");
  return /^[1-9]\d{0,15}$/.test(seq) ? <EventDetail key={seq} seq={BigInt(seq)} /> : <All />;
}

function All() {
  const [tab, setTab] = useQueryParam("tab", "events");
  const [line, setLine] = useQueryParam("q");
  return (
    <Screen title="Journal" command={tab === "events" ? listCommand(parseFilter(line, facets)) : palyra("journal", "verify")}>
      <Tabs label="Journal" value={tab} onChange={setTab} tabs={[{ id: "events", label: "Events", content: <Events line={line} onLine={setLine} /> }]} />
    </Screen>
  );
}
