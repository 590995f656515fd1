import { useRef, useState } from "react";
import { useKeys } from "../shell/keys";
import { visibleText } from "../text/visible";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Select, TextField } from "./Field";
import type { Facet, Filter, Term } from "./filter";
import { mergeTerm, formatFilter, parseFilter } from "./filter";
import { Menu, MenuItem, MenuLabel } from "./Menu";
import { useSavedFilters } from "./savedFilters";

/**
 * The filter of a screen: a text field (focus with /), a chip for each term that toggles
 * between "is" and "is not", and named saved filters, one of which can be the default.
 * Keep the filter text in the address with useQueryParam("q").
 */
export function FilterBar({ screen, facets, line, onChange }: { screen: string; facets: readonly Facet[]; line: string; onChange: (line: string) => void }) {
  const filter = parseFilter(line, facets);
  const input = useRef<HTMLInputElement>(null);
  const [draft, setDraft] = useState<string | undefined>(undefined);
  const [isAdding, setIsAdding] = useState(false);
  useKeys([
    { key: "/", description: "Filter", run: () => input.current?.focus() },
    { key: "Esc", description: "Discard the changes to the filter" },
  ]);
  const change = (terms: readonly Term[]) => onChange(formatFilter(terms));
  const drop = (at: number) => change(filter.terms.filter((_, i) => i !== at));
  const invert = (at: number) => change(filter.terms.map((t, i) => (i === at ? { ...t, exclude: !t.exclude } : t)));
  return (
    <div className="flex flex-col gap-2">
      <form
        role="search"
        className="flex flex-wrap items-center gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (draft !== undefined) onChange(draft.trim());
          setDraft(undefined);
        }}
      >
        <input
          ref={input}
          type="search"
          aria-label="Filter"
          placeholder={`Filter: ${facets[0]?.id ?? "tool"}:… ${facets[1]?.onlyInclude === true ? "" : "-"}${facets[1]?.id ?? "severity"}:…`}
          spellCheck={false}
          autoComplete="off"
          value={draft ?? line}
          onChange={(event) => setDraft(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") {
              setDraft(undefined);
              input.current?.blur();
            }
          }}
          className="min-w-40 flex-1 rounded-md border border-edge bg-page px-2.5 py-1.5 font-mono text-sm text-ink placeholder:text-quiet"
        />
        <Button size="small" onClick={() => setIsAdding(true)}>
          Add filter
        </Button>
        <SavedFilters screen={screen} line={line} onChange={onChange} />
      </form>
      {filter.terms.length > 0 && (
        <ul aria-label="Active filters" className="flex flex-wrap gap-1.5">
          {filter.terms.map((term, i) => (
            <Chip key={`${term.facet}${term.exclude}`} term={term} facets={facets} onInvert={() => invert(i)} onDrop={() => drop(i)} />
          ))}
          <li>
            <Button size="small" variant="bare" onClick={() => onChange("")}>
              Clear all
            </Button>
          </li>
        </ul>
      )}
      <Problems filter={filter} />
      {isAdding && (
        <AddFilter
          facets={facets}
          onClose={() => setIsAdding(false)}
          onAdd={(term) => {
            const terms = filter.terms.map((t) => ({ ...t }));
            mergeTerm(terms, term);
            change(terms);
            setIsAdding(false);
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
      {filter.problems.map(visibleText).join("; ")}
    </p>
  );
}

function Chip({ term, facets, onInvert, onDrop }: { term: Term; facets: readonly Facet[]; onInvert: () => void; onDrop: () => void }) {
  const facet = facets.find((f) => f.id === term.facet);
  const label = facet?.label ?? term.facet;
  const sense = term.exclude ? "is not" : "is";
  return (
    <li className="inline-flex max-w-full items-center gap-1 rounded-md border border-line bg-panel pl-2 text-sm">
      <span className="text-quiet">{label}</span>
      {facet?.onlyInclude === true ? (
        <span>{sense}</span>
      ) : (
        <Button variant="bare" size="small" onClick={onInvert} aria-label={`${label} ${sense}: invert`}>
          {sense}
        </Button>
      )}
      <span className="truncate font-mono">{term.values.map(visibleText).join(" or ")}</span>
      <Button variant="bare" size="small" onClick={onDrop} aria-label={`Remove the filter ${label}`}>
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
  const newValue = facet?.values === undefined ? value.trim() : value || (facet.values[0] ?? "");
  const problem = newValue === "" ? undefined : facet?.check?.(newValue);
  return (
    <Dialog open onClose={onClose} title="Add a filter">
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (newValue !== "" && problem === undefined) onAdd({ facet: id, exclude: sense === "not" && facet?.onlyInclude !== true, values: [newValue] });
        }}
      >
        <Select
          label="Field"
          value={id}
          options={facets.map((f) => ({ value: f.id, label: f.label }))}
          onChange={(event) => {
            setId(event.target.value);
            setValue("");
          }}
        />
        {facet?.onlyInclude !== true && (
          <Select
            label="Condition"
            value={sense}
            options={[
              { value: "is", label: "is" },
              { value: "not", label: "is not" },
            ]}
            onChange={(event) => setSense(event.target.value)}
          />
        )}
        {facet?.values === undefined ? (
          <TextField label="Value" value={value} hint={problem} onChange={(event) => setValue(event.target.value)} />
        ) : (
          <Select label="Value" value={newValue} options={facet.values.map((v) => ({ value: v, label: v }))} onChange={(event) => setValue(event.target.value)} />
        )}
        <div className="flex justify-end">
          <Button variant="primary" type="submit" disabledReason={newValue === "" ? "Enter a value." : problem}>
            Add
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function SavedFilters({ screen, line, onChange }: { screen: string; line: string; onChange: (line: string) => void }) {
  const saved = useSavedFilters(screen);
  const [isNaming, setIsNaming] = useState(false);
  const [name, setName] = useState("");
  const current = saved.filters.find((f) => f.line === line);
  return (
    <>
      <Menu button={<Button size="small">Saved filters</Button>}>
        {saved.filters.length === 0 && <MenuLabel>No saved filters</MenuLabel>}
        {saved.filters.map((f) => (
          <MenuItem key={f.name} onSelect={() => onChange(f.line)}>
            {visibleText(f.name)}
            {f.name === saved.byDefault && <span className="text-sm text-quiet">default</span>}
          </MenuItem>
        ))}
        {current === undefined && line !== "" && <MenuItem onSelect={() => setIsNaming(true)}>Save this filter…</MenuItem>}
        {current !== undefined && current.name !== saved.byDefault && <MenuItem onSelect={() => saved.setDefault(current.name)}>Make “{visibleText(current.name)}” the default</MenuItem>}
        {current?.name === saved.byDefault && saved.byDefault !== "" && <MenuItem onSelect={() => saved.setDefault("")}>Clear the default</MenuItem>}
        {current !== undefined && <MenuItem onSelect={() => saved.remove(current.name)}>Delete “{visibleText(current.name)}”</MenuItem>}
      </Menu>
      <Dialog open={isNaming} onClose={() => setIsNaming(false)} title="Save this filter" description="The filter is saved in this browser.">
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() === "") return;
            saved.add(name.trim(), line);
            setIsNaming(false);
            setName("");
          }}
        >
          <TextField label="Name" value={name} maxLength={60} onChange={(event) => setName(event.target.value)} />
          <div className="flex justify-end">
            <Button variant="primary" type="submit" disabledReason={name.trim() === "" ? "Enter a name." : undefined}>
              Save
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
