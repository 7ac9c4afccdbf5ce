// Replaces missing content: says what the things are, and how to begin.
import type { ReactNode } from 'react'
import { CodeTabs, type Examples } from './code.tsx'

interface EmptyProps {
  title: string
  text: string
  examples?: Examples
  children?: ReactNode
}

export const Empty = ({ title, text, examples, children }: EmptyProps) => (
  <div className="empty">
    <h2>{title}</h2>
    <p>{text}</p>
    {examples && <CodeTabs examples={examples} />}
    {children}
  </div>
)
