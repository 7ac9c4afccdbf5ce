// Compiling callers' code: TypeScript, JavaScript, and the errors for anything else.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compile } from './compile.ts'

const run = (code: string) => compile(code)('page', 'context', 'browser')

describe('Playwright code', () => {
  test.each([
    ['return page + context + browser', 'pagecontextbrowser'],
    ['', undefined],
    ['return 1 // the end', 1],
    ['const x: number = await Promise.resolve(1)\nreturn x as unknown', 1],
    ['const id = <T,>(x: T): T => x\nreturn id<string>("a")', 'a'],
    ['interface A { b?: string }\nconst a: A = {}\nreturn a.b ?? "none"', 'none'],
    ['enum A { B = 3 }\nreturn A.B', 3],
    ['class A { constructor(private x: number) {} get y() { return this.x } }\nreturn new A(3).y', 3],
    ['return <any>5', 5],
    ['return "\u2028}"', '\u2028}'],
    ['const { basename } = await import("node:path")\nreturn basename("/a/b")', 'b'],
    ['return typeof require', 'undefined'],
  ])('%j returns %j', async (code, expected) => {
    expect(await run(code)).toBe(expected)
  })

  test.each([
    ['const a = 1\nconst a = 2', "Identifier 'a' has already been declared (line 2)"],
    ['const a = 1;\n\nretrun x y', /\(line 3\)$/],
    ['return ((', /^Expression expected/],
    ['import fs from "node:fs"', /await import/],
    ['} evil(); async function more() {', /Unexpected identifier 'evil'/],
    ['/* without end', /Unterminated block comment/],
    ['with (page) {}', /line 1/],
  ])('%j is refused with a helpful message', (code, message) => {
    expect(() => compile(code)).toThrow(SyntaxError)
    expect(() => compile(code)).toThrow(message)
  })

  test('has its own line numbers in the stack of an error', async () => {
    const error = await run('const a: string = "x"\n\nthrow new Error(a)').catch((thrown: unknown) => thrown as Error)
    expect((error as Error).stack).toMatch(/code\.ts:3:7/)
  })

  test('compiles to a function or fails with a SyntaxError, for any characters', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 5 }),
      fc.constantFrom('}', '{', ')', '`', '/*', '//', '\n', 'return ', 'await ', '<T>', ': any', '=>', 'enum A {', 'import(', '\\u'),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        try {
          compile(pieces.join(''))
        } catch (error) {
          expect(error).toBeInstanceOf(SyntaxError)
        }
      }),
      { numRuns: 1_000 },
    )
  })
})
