import { useState } from "react";
import { useParam, useQueryParam } from "../../shell/router";
import { defaultFilter } from "../../ui/savedFilters";
import { cx } from "../../ui/cx";
import { ApprovalDetail } from "./ApprovalDetail";
import { Inbox } from "./Inbox";

/** The inbox and the open approval: next to it on wide screens, otherwise instead of it. */
export default function Approvals() {
  const id = useParam("id");
  const [byDefault] = useState(() => defaultFilter("approvals"));
  const [line, setLine] = useQueryParam("q", byDefault);
  const open = id !== "";
  return (
    <div className="flex h-full min-h-0">
      <div className={cx("min-h-0 min-w-0 flex-1", open && "hidden xl:block xl:max-w-md xl:border-r xl:border-line")}>
        <Inbox line={line} onLineChange={setLine} open={id} />
      </div>
      {open && (
        <div className="min-h-0 min-w-0 flex-1 overflow-y-auto" data-detail="">
          <ApprovalDetail key={id} id={id} back={line} />
        </div>
      )}
    </div>
  );
}
