// Runs lines that the dashboard offers to copy, unchanged, as a person who pastes them does.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

const PYTHON = join(PACKAGE_DIR, '.cob/python')
const PYTHON_SDK = '0.84.0'
const PROGRAM_MS = 100_000

export type Language = 'TypeScript' | 'Python' | 'curl'

/** Runs the lines, and returns their output. They read the key from KERNEL_API_KEY. @throws with their output when they fail */
export async function runPasted(language: Language, lines: string, key: string): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-pasted-'))
  try {
    symlinkSync(join(PACKAGE_DIR, 'node_modules'), join(dir, 'node_modules'))
    writeFileSync(join(dir, 'package.json'), '{"type": "module"}')
    const [name, command, ...args] = {
      TypeScript: ['program.ts', process.execPath, 'program.ts'],
      Python: ['program.py', join(PYTHON, 'venv/bin/python'), 'program.py'],
      curl: ['program.sh', 'bash', '-e', 'program.sh'],
    }[language] as [string, string, ...string[]]
    // Without this option, curl counts an answer of 404 as a success.
    writeFileSync(join(dir, name), language === 'curl' ? lines.replace(/^curl /, 'curl --fail-with-body ') : lines)
    const { stdout } = await promisify(execFile)(command, args, {
      cwd: dir,
      timeout: PROGRAM_MS,
      env: { PATH: process.env.PATH, HOME: dir, KERNEL_API_KEY: key, PYTHONPATH: join(PYTHON, PYTHON_SDK), PYTHONDONTWRITEBYTECODE: '1' },
    })
    return stdout
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
