// Code to copy.
import { useEffect, useState } from 'react'
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components'
import { Button } from './button.tsx'
import { copy } from './clipboard.ts'
import { failed } from './toasts.tsx'

const COPIED_MS = 2_000

/** A button that copies `text`. */
export function Copy({ text, children = 'Copy' }: { text: string; children?: string }) {
  const [isCopied, copied] = useState(false)
  useEffect(() => {
    if (!isCopied) return
    const timer = setTimeout(() => copied(false), COPIED_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  const act = async (): Promise<void> => {
    if (await copy(text)) return copied(true)
    failed('Copying has failed')(new Error('The browser does not allow it here. Select the text and copy it.'))
  }
  return (
    <Button look="quiet" onPress={() => void act()}>
      {isCopied ? 'Copied' : children}
    </Button>
  )
}

export const Code = ({ text, label }: { text: string; label: string }) => (
  <div className="code">
    {/* The code scrolls, so the keyboard must reach it. */}
    <pre tabIndex={0} role="region" aria-label={label}>
      <code>{text}</code>
    </pre>
    <Copy text={text} />
  </div>
)

/** The same example in three languages. Each must work when pasted, with the key in the variable KERNEL_API_KEY. */
export interface Examples {
  typescript: string
  python: string
  curl: string
}

const LANGUAGES = [
  ['typescript', 'TypeScript'],
  ['python', 'Python'],
  ['curl', 'curl'],
] as const

export const CodeTabs = ({ examples }: { examples: Examples }) => (
  <Tabs className="code-tabs">
    <TabList aria-label="Language" className="tabs">
      {LANGUAGES.map(([id, name]) => (
        <Tab key={id} id={id} className="tab">
          {name}
        </Tab>
      ))}
    </TabList>
    {LANGUAGES.map(([id, name]) => (
      <TabPanel key={id} id={id}>
        <Code text={examples[id]} label={name} />
      </TabPanel>
    ))}
  </Tabs>
)

const TS_HEAD = `// npm install @onkernel/sdk
import Kernel from '@onkernel/sdk'

const kernel = new Kernel({ apiKey: process.env.KERNEL_API_KEY, baseURL: '${location.origin}' })`
const PYTHON_HEAD = `# pip install kernel
import os
from kernel import Kernel

kernel = Kernel(api_key=os.environ["KERNEL_API_KEY"], base_url="${location.origin}")`

/** Adds to each example its first lines: a client for this service. `curl` is the text after `curl`, with `$URL` for the service's address. */
export const examples = (typescript: string, python: string, curl: string): Examples => ({
  typescript: `${TS_HEAD}\n${typescript}`,
  python: `${PYTHON_HEAD}\n${python}`,
  curl: `curl -H "Authorization: Bearer $KERNEL_API_KEY" ${curl.replaceAll('$URL', location.origin)}`,
})
