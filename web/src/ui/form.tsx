// Forms that are lists of fields. Errors appear at the field, also those of the service.
import { useEffect, useRef, useState, type ReactNode } from 'react'
import { Button as AriaButton, FileTrigger, Switch } from 'react-aria-components'
import type { Progress } from '../api/upload.ts'
import { adviceOn } from './advice.ts'
import { Button } from './button.tsx'
import { Dialog } from './confirm.tsx'
import { Field, Select } from './field.tsx'
import { bodyOf, problemsOf, type Body, type FieldSpec, type Problems, type Values } from './form-values.ts'
import { size } from './show.tsx'
import './form.css'

interface FormProps {
  fields: readonly FieldSpec[]
  /** The text of the button, a verb. */
  action: string
  /** Sends the form. The form shows its error, and the progress that it reports. */
  send: (body: Body, progress: Progress) => Promise<unknown>
  onCancel?: () => void
  /** The text above the fields. */
  text?: ReactNode
}

export function Form({ fields, action, send, onCancel, text }: FormProps) {
  const [values, set] = useState<Values>(() => Object.fromEntries(fields.map(({ name, initial, options }) => [name, initial ?? options?.[0]?.[0] ?? ''])))
  const [problems, setProblems] = useState<Problems>({})
  const [refusal, refuse] = useState<string>()
  const [isBusy, busy] = useState(false)
  const [sent, setSent] = useState(1)
  const form = useRef<HTMLFormElement>(null)
  const shown = fields.filter(({ when }) => when?.(values) !== false)

  useEffect(() => {
    if (Object.keys(problems).length > 0) form.current?.querySelector<HTMLElement>('[aria-invalid="true"], [data-invalid] input')?.focus()
  }, [problems])

  const submit = (): void => {
    if (isBusy) return
    const { body, problems: wrong } = bodyOf(fields, values)
    setProblems(wrong)
    refuse(undefined)
    if (Object.keys(wrong).length > 0) return
    busy(true)
    setSent(1)
    send(body, setSent).then(
      () => busy(false),
      (error: unknown) => {
        const { problems: told, others } = problemsOf(error, shown)
        setProblems(told)
        refuse(others ? adviceOn(error) : undefined)
        busy(false)
      },
    )
  }
  const change = (name: string, value: string | File): void => {
    set((now) => ({ ...now, [name]: value }))
    setProblems(({ [name]: _, ...rest }) => rest)
  }
  return (
    <form
      ref={form}
      className="dialog-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      {text}
      {shown.map((field) => (
        <One key={field.name} field={field} value={values[field.name] ?? ''} problem={problems[field.name]} onChange={(value) => change(field.name, value)} />
      ))}
      {refusal !== undefined && (
        <p className="problem" role="alert">
          {refusal}
        </p>
      )}
      <div className="buttons">
        {onCancel && <Button onPress={onCancel}>Cancel</Button>}
        <Button look="primary" type="submit" isDisabled={isBusy}>
          {isBusy ? `${action}…${sent < 1 ? ` ${Math.floor(sent * 100)} %` : ''}` : action}
        </Button>
      </div>
    </form>
  )
}

interface OneProps {
  field: FieldSpec
  value: string | File
  problem: string | undefined
  onChange: (value: string | File) => void
}

function One({ field: { label, kind = 'text', hint, placeholder, options, isRequired = false, rows, accept }, value, problem, onChange }: OneProps) {
  if (kind === 'choice')
    return (
      <Select
        label={label}
        value={value as string}
        options={options ?? []}
        onChange={onChange}
        {...(hint !== undefined && { hint })}
        {...(problem !== undefined && { problem })}
      />
    )
  if (kind === 'switch')
    return (
      <div className="field">
        <Switch className="switch" isSelected={value === 'true'} onChange={(isOn) => onChange(isOn ? 'true' : '')}>
          <span className="track" aria-hidden="true" />
          {label}
        </Switch>
        {hint && <span className="hint">{hint}</span>}
        {problem && (
          <span className="problem" role="alert">
            {problem}
          </span>
        )}
      </div>
    )
  if (kind === 'file') {
    const file = value instanceof File ? value : undefined
    return (
      <div className="field" role="group" aria-label={label}>
        <span className="label">{label}</span>
        <span className="file-choice">
          <FileTrigger {...(accept !== undefined && { acceptedFileTypes: accept.split(',') })} onSelect={(files) => files?.[0] && onChange(files[0])}>
            <AriaButton className="button plain" aria-label={`Choose a file for ${label}`}>
              Choose a file
            </AriaButton>
          </FileTrigger>
          <span className={file ? '' : 'muted'}>{file ? `${file.name}, ${size(file.size)}` : 'None chosen'}</span>
        </span>
        {hint && <span className="hint">{hint}</span>}
        {problem && (
          <span className="problem" role="alert">
            {problem}
          </span>
        )}
      </div>
    )
  }
  const isLong = kind === 'lines' || kind === 'pairs' || kind === 'json'
  return (
    <Field
      label={label}
      value={value as string}
      onChange={onChange}
      isRequired={isRequired}
      {...(kind === 'password' && { type: 'password' as const, autoComplete: 'off' })}
      {...(kind === 'number' && { inputMode: 'decimal' as const })}
      {...(isLong ? { rows: rows ?? 3 } : rows !== undefined && { rows })}
      {...(hint !== undefined && { hint })}
      {...(placeholder !== undefined && { placeholder })}
      {...(problem !== undefined && { problem })}
    />
  )
}

interface FormDialogProps extends Omit<FormProps, 'onCancel' | 'send'> {
  title: string
  trigger: ReactNode
  /** The dialog closes when this resolves. */
  send: FormProps['send']
}

/** A button that opens a form. */
export const FormDialog = ({ title, trigger, send, ...form }: FormDialogProps) => (
  <Dialog title={title} trigger={trigger}>
    {(close) => <Form {...form} onCancel={close} send={(body, progress) => send(body, progress).then(close)} />}
  </Dialog>
)
