import type { InputHTMLAttributes, ReactNode, Ref, SelectHTMLAttributes, TextareaHTMLAttributes } from "react";
import { useId } from "react";
import { cx } from "./cx";

const fieldClasses = "w-full rounded-md border border-edge bg-page px-2.5 py-1.5 text-ink placeholder:text-quiet";

function LabelledField({ id, label, hint, children }: { id: string; label: string; hint: string | undefined; children: ReactNode }) {
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      {children}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 text-sm text-quiet">
          {hint}
        </p>
      )}
    </div>
  );
}

interface FieldProps {
  label: string;
  hint?: string | undefined;
}

export function TextField({ label, hint, className, ref, ...rest }: FieldProps & InputHTMLAttributes<HTMLInputElement> & { ref?: Ref<HTMLInputElement> }) {
  const id = useId();
  return (
    <LabelledField id={id} label={label} hint={hint}>
      <input id={id} ref={ref} type="text" autoComplete="off" spellCheck={false} aria-describedby={hint === undefined ? undefined : `${id}-hint`} {...rest} className={cx(fieldClasses, className)} />
    </LabelledField>
  );
}

export function TextArea({ label, hint, className, ref, ...rest }: FieldProps & TextareaHTMLAttributes<HTMLTextAreaElement> & { ref?: Ref<HTMLTextAreaElement> }) {
  const id = useId();
  return (
    <LabelledField id={id} label={label} hint={hint}>
      <textarea id={id} ref={ref} rows={3} spellCheck={false} aria-describedby={hint === undefined ? undefined : `${id}-hint`} {...rest} className={cx(fieldClasses, className)} />
    </LabelledField>
  );
}

/** A native select, because Radix's Select inserts a <style>. */
export function Select({ label, hint, options, className, ...rest }: FieldProps & SelectHTMLAttributes<HTMLSelectElement> & { options: readonly { value: string; label: string }[] }) {
  const id = useId();
  return (
    <LabelledField id={id} label={label} hint={hint}>
      <select id={id} aria-describedby={hint === undefined ? undefined : `${id}-hint`} {...rest} className={cx(fieldClasses, className)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </LabelledField>
  );
}

export function Checkbox({ label, hidden, ...rest }: { label: string; hidden?: boolean } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <label className="inline-flex min-h-6 items-center gap-2">
      <input type="checkbox" {...rest} className="size-4 accent-(--accent)" />
      <span className={hidden === true ? "sr-only" : undefined}>{label}</span>
    </label>
  );
}
