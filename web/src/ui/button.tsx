// Buttons: one component for all, so that size, focus and looks are the same everywhere.
import { Button as AriaButton, type ButtonProps } from 'react-aria-components'

interface Props extends Omit<ButtonProps, 'className'> {
  look?: 'plain' | 'primary' | 'danger' | 'quiet'
}

/** `look`: `primary` at most once a page; `danger` for what cannot be undone; `quiet` inside tables and bars. */
export const Button = ({ look = 'plain', ...props }: Props) => <AriaButton {...props} className={`button ${look}`} />
