import type { ReactNode } from "react";
import { Children, Fragment } from "react";

/** The second line of a row in a list: what else there is to know, cut at its end where it does not fit. */
export function Meta({ children }: { children: ReactNode }) {
  return (
    <span className="block truncate text-sm text-quiet">
      {Children.toArray(children).map((part, i) => (
        <Fragment key={i}>
          {i > 0 && " · "}
          {part}
        </Fragment>
      ))}
    </span>
  );
}
