// A choice among many: a text field with a list of suggestions.

import { Combobox, ComboboxItem, ComboboxPopover, ComboboxProvider } from "@ariakit/react";
import { useMemo, useState } from "react";

/** Choice of a picker. */
export interface Choice {
  value: string;
  label: string;
  /** Further text, such as short names. The search includes it. */
  detail?: string;
}

/** Maximum number of suggestions. */
const MAX_SUGGESTIONS = 200;

interface PickerProps {
  label: string;
  value: string;
  choices: readonly Choice[];
  /** True if the user may enter a value that is no choice. */
  isFree?: boolean;
  onChange(value: string): void;
}

export function Picker({ label, value, choices, isFree, onChange }: PickerProps) {
  const [typed, setTyped] = useState<string>();
  const current = choices.find((choice) => choice.value === value)?.label ?? value;
  const matches = useMemo(() => {
    const wanted = (typed ?? "").trim().toLowerCase();
    const found = choices.filter(({ label, detail }) => `${label} ${detail ?? ""}`.toLowerCase().includes(wanted));
    // Names that begin with the text come first.
    const rank = (choice: Choice): number =>
      choice.label.toLowerCase().startsWith(wanted) || choice.detail?.split(" ").includes(wanted) ? 0 : 1;
    return found.sort((left, right) => rank(left) - rank(right)).slice(0, MAX_SUGGESTIONS);
  }, [choices, typed]);
  const choose = (chosen: string): void => {
    setTyped(undefined);
    if (chosen !== value) onChange(chosen);
  };
  return (
    <label className="field picker">
      <span>{label}</span>
      <ComboboxProvider
        value={typed ?? current}
        setValue={setTyped}
        setSelectedValue={(chosen: string | string[]) => choose(String(chosen))}
        selectedValue=""
        setOpen={(isOpen) => {
          if (!isOpen) setTyped(undefined);
        }}
      >
        <Combobox
          autoSelect
          spellCheck={false}
          autoComplete="off"
          onFocus={(event) => event.currentTarget.select()}
          onKeyDown={(event) => {
            if (event.key === "Enter" && isFree && typed !== undefined && matches.length === 0) choose(typed.trim());
          }}
        />
        <ComboboxPopover className="popover" gutter={4} sameWidth fitViewport aria-label={label} unmountOnHide>
          {matches.map((choice) => (
            <ComboboxItem key={choice.value} value={choice.value} className="choice" setValueOnClick={false}>
              <span>{choice.label}</span>
              {choice.detail && <small>{choice.detail}</small>}
            </ComboboxItem>
          ))}
          {matches.length === 0 && <p className="empty">{isFree ? "Press Enter to use this name." : "Nothing matches."}</p>}
        </ComboboxPopover>
      </ComboboxProvider>
    </label>
  );
}
