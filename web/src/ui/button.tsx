// Buttons. One component for all, so that size, focus and looks are the same everywhere.
import { Button as AriaButton, type ButtonProps } from 'react-aria-components'

interface Props extends Omit<ButtonProps, 'className'> {
  look?: 'plain' | 'primary' | 'danger' | 'quiet'
}

/** `look`: `primary` at most once per page; `danger` for actions that cannot be undone; `quiet` inside tables and bars. */
export const Button = ({ look = 'plain', ...props }: Props) => <AriaButton {...props} className={`button ${look}`} />

/** A button in a row of a table. `label` tells screen readers which thing it is about. */
export const RowButton = ({ label, ...props }: Omit<Props, 'look'> & { label: string }) => <Button {...props} look="quiet" aria-label={label} />
