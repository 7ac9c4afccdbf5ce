// An empty list: what the things are, and how to begin.
import { CodeTabs, type Examples } from './code.tsx'

export const Empty = ({ title, text, examples }: { title: string; text: string; examples?: Examples }) => (
  <div className="empty">
    <h2>{title}</h2>
    <p>{text}</p>
    {examples && <CodeTabs examples={examples} />}
  </div>
)
