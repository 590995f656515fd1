import { useRef, useState } from "react";
import { useKeys } from "../shell/keys";
import { plain } from "../text/visible";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Select, TextField } from "./Field";
import type { Facet, Filter, Term } from "./filter";
import { addTerm, formatFilter, parseFilter } from "./filter";
import { Menu, MenuItem, MenuLabel } from "./Menu";
import { useSaved } from "./saved";

/**
 * The filter of a screen, always in sight: a line to type (/ goes there), a chip for each
 * term that turns between "is" and "is not", and filters saved by name, of which one may
 * be the default. Keep the line in the address with useQueryParam("q").
 */
export function FilterBar({ screen, facets, line, onChange }: { screen: string; facets: readonly Facet[]; line: string; onChange: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const [adding, setAdding] = useState(false);
  useKeys([
    { key: "/", says: "Filter", run: () => input.current?.focus() },
    { key: "Esc", says: "Leave the filter as it was, while it is typed" },
  ]);
  const change = (terms: readonly Term[]) => onChange(formatFilter(terms));
  const drop = (at: number) => change(filter.terms.filter((_, i) => i !== at));
  const turn = (at: number) => change(filter.terms.map((t, i) => (i === at ? { ...t, exclude: !t.exclude } : t)));
  return (
    <div className="flex flex-col gap-2">
      <form
        role="search"
        className="flex flex-wrap items-center gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed !== undefined) onChange(typed.trim());
          setTyped(undefined);
        }}
      >
        <input
          ref={input}
          type="search"
          aria-label="Filter"
          placeholder={`Filter: ${facets[0]?.id ?? "tool"}:… ${facets[1]?.onlyInclude === true ? "" : "-"}${facets[1]?.id ?? "severity"}:…`}
          spellCheck={false}
          autoComplete="off"
          value={typed ?? line}
          onChange={(event) => setTyped(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") {
              setTyped(undefined);
              input.current?.blur();
            }
          }}
          className="min-w-40 flex-1 rounded-md border border-edge bg-page px-2.5 py-1.5 font-mono text-sm text-ink placeholder:text-quiet"
        />
        <Button size="small" onClick={() => setAdding(true)}>
          Add filter
        </Button>
        <SavedFilters screen={screen} line={line} onChange={onChange} />
      </form>
      {filter.terms.length > 0 && (
        <ul aria-label="Filters in force" className="flex flex-wrap gap-1.5">
          {filter.terms.map((term, i) => (
            <Chip key={`${term.facet}${term.exclude}`} term={term} facets={facets} onTurn={() => turn(i)} onDrop={() => drop(i)} />
          ))}
          <li>
            <Button size="small" look="bare" onClick={() => onChange("")}>
              Clear all
            </Button>
          </li>
        </ul>
      )}
      <Problems filter={filter} />
      {adding && (
        <AddFilter
          facets={facets}
          onClose={() => setAdding(false)}
          onAdd={(term) => {
            const terms = filter.terms.map((t) => ({ ...t }));
            addTerm(terms, term);
            change(terms);
            setAdding(false);
          }}
        />
      )}
    </div>
  );
}

function Problems({ filter }: { filter: Filter }) {
  if (filter.problems.length === 0) return null;
  return (
    <p role="alert" className="text-sm text-bad">
      {filter.problems.map(plain).join("; ")}
    </p>
  );
}

function Chip({ term, facets, onTurn, onDrop }: { term: Term; facets: readonly Facet[]; onTurn: () => void; onDrop: () => void }) {
  const facet = facets.find((f) => f.id === term.facet);
  const label = facet?.label ?? term.facet;
  const sense = term.exclude ? "is not" : "is";
  return (
    <li className="inline-flex max-w-full items-center gap-1 rounded-md border border-line bg-panel pl-2 text-sm">
      <span className="text-quiet">{label}</span>
      {facet?.onlyInclude === true ? (
        <span>{sense}</span>
      ) : (
        <Button look="bare" size="small" onClick={onTurn} aria-label={`${label} ${sense}: turn round`}>
          {sense}
        </Button>
      )}
      <span className="truncate font-mono">{term.values.map(plain).join(" or ")}</span>
      <Button look="bare" size="small" onClick={onDrop} aria-label={`Remove the filter ${label}`}>
        ✕
      </Button>
    </li>
  );
}

function AddFilter({ facets, onAdd, onClose }: { facets: readonly Facet[]; onAdd: (term: Term) => void; onClose: () => void }) {
  const [id, setId] = useState(facets[0]?.id ?? "");
  const [sense, setSense] = useState("is");
  const [value, setValue] = useState("");
  const facet = facets.find((f) => f.id === id);
  const chosen = facet?.values === undefined ? value.trim() : value || (facet.values[0] ?? "");
  const wrong = chosen === "" ? undefined : facet?.check?.(chosen);
  return (
    <Dialog open onClose={onClose} title="Add a filter">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (chosen !== "" && wrong === undefined) onAdd({ facet: id, exclude: sense === "not" && facet?.onlyInclude !== true, values: [chosen] });
        }}
      >
        <Select
          label="What"
          value={id}
          options={facets.map((f) => ({ value: f.id, label: f.label }))}
          onChange={(event) => {
            setId(event.target.value);
            setValue("");
          }}
        />
        {facet?.onlyInclude !== true && (
          <Select
            label="How"
            value={sense}
            options={[
              { value: "is", label: "is" },
              { value: "not", label: "is not" },
            ]}
            onChange={(event) => setSense(event.target.value)}
          />
        )}
        {facet?.values === undefined ? (
          <TextField label="Value" value={value} hint={wrong} onChange={(event) => setValue(event.target.value)} />
        ) : (
          <Select label="Value" value={chosen} options={facet.values.map((v) => ({ value: v, label: v }))} onChange={(event) => setValue(event.target.value)} />
        )}
        <div className="flex justify-end">
          <Button look="primary" type="submit" off={chosen === "" ? "Give a value." : wrong}>
            Add
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function SavedFilters({ screen, line, onChange }: { screen: string; line: string; onChange: (line: string) => void }) {
  const saved = useSaved(screen);
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState("");
  const here = saved.filters.find((f) => f.line === line);
  return (
    <>
      <Menu button={<Button size="small">Saved filters</Button>}>
        {saved.filters.length === 0 && <MenuLabel>None is saved yet</MenuLabel>}
        {saved.filters.map((f) => (
          <MenuItem key={f.name} onSelect={() => onChange(f.line)}>
            {plain(f.name)}
            {f.name === saved.byDefault && <span className="text-sm text-quiet">default</span>}
          </MenuItem>
        ))}
        {here === undefined && line !== "" && <MenuItem onSelect={() => setNaming(true)}>Save this filter…</MenuItem>}
        {here !== undefined && here.name !== saved.byDefault && <MenuItem onSelect={() => saved.setDefault(here.name)}>Make “{plain(here.name)}” the default</MenuItem>}
        {here?.name === saved.byDefault && saved.byDefault !== "" && <MenuItem onSelect={() => saved.setDefault("")}>Have no default</MenuItem>}
        {here !== undefined && <MenuItem onSelect={() => saved.remove(here.name)}>Forget “{plain(here.name)}”</MenuItem>}
      </Menu>
      <Dialog open={naming} onClose={() => setNaming(false)} title="Save this filter" description="It is kept in this browser.">
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() === "") return;
            saved.add(name.trim(), line);
            setNaming(false);
            setName("");
          }}
        >
          <TextField label="Name" value={name} maxLength={60} onChange={(event) => setName(event.target.value)} />
          <div className="flex justify-end">
            <Button look="primary" type="submit" off={name.trim() === "" ? "Give a name." : undefined}>
              Save
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
