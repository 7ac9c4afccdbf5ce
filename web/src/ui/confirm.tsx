// A question before an action that cannot be undone, and dialogs in general.
import { useState, type ReactNode } from 'react'
import { Dialog as AriaDialog, DialogTrigger, Heading, Modal, ModalOverlay } from 'react-aria-components'
import { adviceOn } from './advice.ts'
import { Button } from './button.tsx'

interface DialogProps {
  title: string
  /** The button that opens the dialog. */
  trigger: ReactNode
  /** The dialog's content; `close` closes the dialog. */
  children: (close: () => void) => ReactNode
  role?: 'dialog' | 'alertdialog'
}

export const Dialog = ({ title, trigger, children, role = 'dialog' }: DialogProps) => (
  <DialogTrigger>
    {trigger}
    <ModalOverlay className="overlay" isDismissable={role === 'dialog'}>
      <Modal className="modal">
        <AriaDialog className="dialog" role={role}>
          {({ close }) => (
            <>
              <Heading slot="title">{title}</Heading>
              {children(close)}
            </>
          )}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  </DialogTrigger>
)

interface ConfirmProps {
  title: string
  text: ReactNode
  /** The text of the button, a verb: "End", "Delete". */
  action: string
  trigger: ReactNode
  /** The dialog shows the progress of this, and its error. */
  onConfirm: () => Promise<unknown>
}

export const Confirm = ({ title, text, action, trigger, onConfirm }: ConfirmProps) => (
  <Dialog title={title} trigger={trigger} role="alertdialog">
    {(close) => <Question text={text} action={action} onConfirm={onConfirm} close={close} />}
  </Dialog>
)

function Question({ text, action, onConfirm, close }: Pick<ConfirmProps, 'text' | 'action' | 'onConfirm'> & { close: () => void }) {
  const [isBusy, busy] = useState(false)
  const [problem, setProblem] = useState<string>()
  const confirm = (): void => {
    busy(true)
    setProblem(undefined)
    onConfirm().then(close, (error: unknown) => {
      setProblem(adviceOn(error))
      busy(false)
    })
  }
  return (
    <>
      <div>{text}</div>
      {problem !== undefined && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="buttons">
        <Button onPress={close} autoFocus>
          Cancel
        </Button>
        <Button look="danger" onPress={confirm} isDisabled={isBusy}>
          {isBusy ? `${action}…` : action}
        </Button>
      </div>
    </>
  )
}
