// Form fields: label, input, hint and problem, joined for screen readers.
import { useId, type ReactNode } from 'react'
import { FieldError, Input, Label, Text, TextArea, TextField, type TextFieldProps } from 'react-aria-components'

interface Props extends Omit<TextFieldProps, 'className' | 'children' | 'isInvalid'> {
  label: string
  hint?: ReactNode
  /** What is wrong with the value. */
  problem?: string
  placeholder?: string
  /** Several lines. */
  rows?: number
}

export const Field = ({ label, hint, problem, placeholder, rows, ...props }: Props) => (
  <TextField {...props} isInvalid={problem !== undefined} className="field">
    <Label>{label}</Label>
    {rows === undefined ? <Input placeholder={placeholder} /> : <TextArea rows={rows} placeholder={placeholder} />}
    {hint !== undefined && (
      <Text slot="description" className="hint">
        {hint}
      </Text>
    )}
    <FieldError className="problem">{problem}</FieldError>
  </TextField>
)

interface SelectProps<T extends string> {
  label: string
  value: T
  options: readonly (readonly [value: T, text: string])[]
  onChange: (value: T) => void
  /** Beside others in a bar, where the choice itself says what it is about. */
  isLabelHidden?: boolean
  hint?: ReactNode
  /** What is wrong with the choice. */
  problem?: string
}

/** A choice of a few. The browser's own: phones show their picker for it. */
export function Select<T extends string>({ label, value, options, onChange, isLabelHidden = false, hint, problem }: SelectProps<T>) {
  const id = useId()
  return (
    <>
      <label className="field select">
        <span className={isLabelHidden ? 'visually-hidden' : 'label'}>{label}</span>
        <select
          value={value}
          onChange={(event) => onChange(event.target.value as T)}
          {...(problem !== undefined && { 'aria-invalid': true })}
          {...((hint !== undefined || problem !== undefined) && { 'aria-describedby': id })}
        >
          {options.map(([each, text]) => (
            <option key={each} value={each}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {(hint !== undefined || problem !== undefined) && (
        <span id={id} className="field of-select">
          {hint !== undefined && <span className="hint">{hint}</span>}
          {problem !== undefined && <span className="problem">{problem}</span>}
        </span>
      )}
    </>
  )
}
