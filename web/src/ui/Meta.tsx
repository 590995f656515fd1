import type { ReactNode } from "react";
import { Children, Fragment } from "react";

/** The second line of a list row: secondary values, truncated at the end. */
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
