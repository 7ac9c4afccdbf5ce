// What tests of the dashboard's pages do again and again: press, fill in dialogs, answer questions.
import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { problemsOf } from './dashboard.ts'

export interface Actions {
  heading(name: string | RegExp, level?: number): Locator
  /** The open dialog with a form. */
  dialog(): Locator
  press(name: string | RegExp): Promise<void>
  /** Presses a button of the open dialog. */
  inDialog(name: string): Promise<void>
  /** Answers the open question with the button `name`, and waits until it has closed. The question must have no problem that axe finds. */
  confirm(name: string): Promise<void>
  row(name: string | RegExp): Locator
  /** Opens the file dialog with the button `name` and chooses a file. */
  choose(name: RegExp, file: string): Promise<void>
}

export function actionsOn(page: Page): Actions {
  const dialog = () => page.locator('section[role=dialog]')
  const question = () => page.locator('section[role=alertdialog]')
  return {
    heading: (name, level = 1) => page.getByRole('heading', { name, level }),
    dialog,
    press: (name) => page.getByRole('button', { name, exact: typeof name === 'string' }).click(),
    inDialog: (name) => dialog().getByRole('button', { name, exact: true }).click(),
    async confirm(name) {
      await question().waitFor()
      expect(await problemsOf(page)).toEqual([])
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
}
