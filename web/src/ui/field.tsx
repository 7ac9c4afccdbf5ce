// Form fields: label, input, hint and error, connected for screen readers.
import { useId, type ReactNode } from 'react'
import { FieldError, Input, Label, Text, TextArea, TextField, type TextFieldProps } from 'react-aria-components'

interface Props extends Omit<TextFieldProps, 'className' | 'children' | 'isInvalid'> {
  label: string
  hint?: ReactNode
  /** The error of the value. */
  problem?: string
  placeholder?: string
  /** The number of lines of a multi-line field. */
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
  /** In a bar with other fields the choice itself says what it is about. */
  isLabelHidden?: boolean
  hint?: ReactNode
  /** The error of the choice. */
  problem?: string
}

/** A choice of a few options. It is the browser's own element, so that phones show their picker. */
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
