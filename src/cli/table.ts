// Rows in columns for people. Text of strangers may contain control characters, which a terminal would obey.

/** Lines of a table whose columns are as wide as their widest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [head, ...rows.map((row) => row.map(plain))]
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at]!.length)))
  return all.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join('  ')
      .trimEnd(),
  )
}

/** The text without control characters and marks that change the direction of writing. */
export const plain = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?')
