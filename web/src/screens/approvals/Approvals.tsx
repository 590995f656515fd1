import { useState } from "react";
import { useParam, useQueryParam } from "../../shell/router";
import { defaultLine } from "../../ui/saved";
import { cx } from "../../ui/cx";
import { Detail } from "./Detail";
import { Inbox } from "./Inbox";

/** The inbox, and the ask of it that is open: beside it where there is room, else over it. */
export default function Approvals() {
  const id = useParam("id");
  const [byDefault] = useState(() => defaultLine("approvals"));
  const [line, setLine] = useQueryParam("q", byDefault);
  const open = id !== "";
  return (
    <div className="flex h-full min-h-0">
      <div className={cx("min-h-0 min-w-0 flex-1", open && "hidden xl:block xl:max-w-md xl:border-r xl:border-line")}>
        <Inbox line={line} onLine={setLine} open={id} />
      </div>
      {open && (
        <div className="min-h-0 min-w-0 flex-1 overflow-y-auto" data-detail="">
          <Detail key={id} id={id} back={line} />
        </div>
      )}
    </div>
  );
}
