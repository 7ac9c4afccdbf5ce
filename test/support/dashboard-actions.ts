// Common actions in tests of the dashboard: press buttons, fill in dialogs, answer questions.
import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { problemsOf } from './axe.ts'

export interface Actions {
  heading(name: string | RegExp, level?: number): Locator
  /** The open form dialog. */
  dialog(): Locator
  /** Presses a button. With `answer`, it also answers the question that follows. */
  press(name: string | RegExp, answer?: string): Promise<void>
  /** Presses a button of the open dialog. */
  inDialog(name: string): Promise<void>
  /** Waits until the dialog shows this text. */
  says(text: string | RegExp): Promise<void>
  /** Waits until a field is marked as invalid. */
  isWrong(label: string): Promise<void>
  /** Answers the open question with the button `name`, and waits until it has closed. In the first question of a file, axe must find no problem. */
  confirm(name: string): Promise<void>
  row(name: string | RegExp): Locator
  /** Opens the file chooser with the button `name`, and chooses a file. */
  choose(name: RegExp, file: string): Promise<void>
}

export function actionsOn(page: Page): Actions {
  const dialog = () => page.locator('section[role=dialog]')
  const question = () => page.locator('section[role=alertdialog]')
  let isChecked = false
  const actions: Actions = {
    heading: (name, level = 1) => page.getByRole('heading', { name, level }),
    dialog,
    async press(name, answer) {
      await page.getByRole('button', { name, exact: typeof name === 'string' }).click()
      if (answer !== undefined) await actions.confirm(answer)
    },
    inDialog: (name) => dialog().getByRole('button', { name, exact: true }).click(),
    says: (text) => dialog().getByText(text).waitFor(),
    isWrong: (label) => expect.poll(() => page.getByLabel(label).and(page.locator('[aria-invalid=true]')).count()).toBe(1),
    async confirm(name) {
      await question().waitFor()
      if (!isChecked) expect(await problemsOf(page)).toEqual([])
      isChecked = true
      await question().getByRole('button', { name, exact: true }).click()
      await question().waitFor({ state: 'detached' })
    },
    row: (name) => page.getByRole('row', { name }),
    async choose(name, file) {
      const chooser = page.waitForEvent('filechooser')
      await page.getByRole('button', { name }).click()
      await (await chooser).setFiles(file)
    },
  }
  return actions
}
