// `cob completion`: scripts for shells, made from the commands themselves, so they cannot differ from them.
import type { Command, Option } from 'commander'

export type CompletionShell = 'bash' | 'zsh' | 'fish'

interface Node {
  /** The words after `cob`, each after a slash. */
  path: string
  commands: { name: string; about: string }[]
  /** The choices of its argument. */
  choices: string[]
  /** Whether its argument is a file. */
  takesFile: boolean
  options: { names: string[]; about: string; takes: 'nothing' | 'a file' | 'something'; choices: string[] }[]
}

/** Values that are files, by what commands call them. */
const FILES = ['file', 'target', 'folder']

/** The script for a shell. It completes what `program` has now. */
export function completion(program: Command, shell: CompletionShell): string {
  const nodes = nodesOf(program, '')
  const name = program.name()
  return { bash, zsh, fish }[shell](name, nodes)
}

function nodesOf(command: Command, path: string): Node[] {
  const help = command.createHelp()
  // With the commands and options that commander adds, as `help`.
  const commands = help.visibleCommands(command)
  const [argument] = command.registeredArguments
  const node: Node = {
    path,
    commands: commands.map((one) => ({ name: one.name(), about: one.description() })),
    choices: argument?.argChoices ?? [],
    takesFile: argument !== undefined && FILES.includes(argument.name()),
    options: help.visibleOptions(command).map((option) => ({
      names: [option.short, option.long].filter((name) => name !== undefined && name !== null),
      about: option.description,
      takes: takes(option),
      choices: option.argChoices ?? [],
    })),
  }
  return [node, ...commands.flatMap((one) => (one.name() === 'help' ? [] : nodesOf(one, `${path}/${one.name()}`)))]
}

function takes({ flags, required, optional }: Option): 'nothing' | 'a file' | 'something' {
  if (!required && !optional) return 'nothing'
  return FILES.includes(/[<[](\w+)/.exec(flags)?.[1] ?? '') ? 'a file' : 'something'
}

const words = ({ commands, choices, options }: Node): string[] => [...commands.map(({ name }) => name), ...choices, ...options.flatMap(({ names }) => names)]

/** One word of every shell here. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** `case` lines: the values of options, by the path and the option. */
const valueCases = (nodes: readonly Node[], file: string, choices: (words: string[]) => string, nothing: string): string[] =>
  nodes.flatMap(({ path, options }) =>
    options
      .filter(({ takes: what }) => what !== 'nothing')
      .map((option) => {
        const what = option.choices.length > 0 ? choices(option.choices) : option.takes === 'a file' ? file : nothing
        return `    ${option.names.map((name) => quoted(`${path}:${name}`)).join('|')}) ${what}; return ;;`
      }),
  )

function bash(name: string, nodes: readonly Node[]): string {
  const reply = (given: string[]) => `mapfile -t COMPREPLY < <(compgen -W ${quoted(given.join(' '))} -- "$cur")`
  const file = `compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur")`
  return `# Completion of ${name} for bash, made by "${name} completion bash".
_${name}() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $path/\${COMP_WORDS[i]} in
    ${pathsOf(nodes)}) path=$path/\${COMP_WORDS[i]} ;;
    esac
  done
  case $path:$prev in
${valueCases(nodes, file, reply, ':').join('\n')}
  esac
  case $path in
${nodes
  .map((node) => {
    const files = node.takesFile ? `; if [[ $cur != -* ]]; then ${file}; fi` : ''
    return `    ${quoted(node.path)}) ${reply(words(node))}${files} ;;`
  })
  .join('\n')}
  esac
}
complete -F _${name} ${name}
`
}

const pathsOf = (nodes: readonly Node[]): string =>
  nodes
    .slice(1)
    .map(({ path }) => quoted(path))
    .join('|')

function zsh(name: string, nodes: readonly Node[]): string {
  const described = (pairs: [string, string][]) => `given=(${pairs.map(([word, about]) => quoted(`${word}:${about}`)).join(' ')}); _describe ${name} given`
  return `#compdef ${name}
# Completion of ${name} for zsh, made by "${name} completion zsh".
_${name}() {
  local cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} at= i
  local -a given
  for ((i = 2; i < CURRENT; i++)); do
    case $at/\${words[i]} in
    ${pathsOf(nodes)}) at=$at/\${words[i]} ;;
    esac
  done
  case $at:$prev in
${valueCases(nodes, '_files', (choices) => `compadd -- ${choices.map(quoted).join(' ')}`, '_message value').join('\n')}
  esac
  case $at in
${nodes
  .map((node) => {
    const options = node.options.flatMap(({ names, about }) => names.map((one): [string, string] => [one, about]))
    const others: [string, string][] = [
      ...node.commands.map((one): [string, string] => [one.name, one.about]),
      ...node.choices.map((one): [string, string] => [one, '']),
    ]
    const rest = others.length > 0 ? described(others) : node.takesFile ? '_files' : ':'
    return `    ${quoted(node.path)}) if [[ $cur == -* ]]; then ${described(options)}; else ${rest}; fi ;;`
  })
  .join('\n')}
  esac
}
if [[ \${funcstack[1]} == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`
}

function fish(name: string, nodes: readonly Node[]): string {
  const word = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const lines = nodes.flatMap(({ path, commands, choices, takesFile, options }) => {
    const when = `-n ${word(`test (__${name}_path) = ${path === '' ? "''" : path}`)}`
    return [
      ...commands.map((one) => `complete -c ${name} ${when} -a ${word(one.name)} -d ${word(one.about)}`),
      ...(choices.length > 0 ? [`complete -c ${name} ${when} -a ${word(choices.join(' '))}`] : []),
      ...(takesFile ? [`complete -c ${name} ${when} -F`] : []),
      ...options.map((option) => {
        const names = option.names.map((one) => (one.startsWith('--') ? `-l ${one.slice(2)}` : `-s ${one.slice(1)}`)).join(' ')
        const value =
          option.takes === 'nothing'
            ? ''
            : option.takes === 'a file'
              ? ' -r -F'
              : ` -x${option.choices.length > 0 ? ` -a ${word(option.choices.join(' '))}` : ''}`
        return `complete -c ${name} ${when} ${names}${value} -d ${word(option.about)}`
      }),
    ]
  })
  return `# Completion of ${name} for fish, made by "${name} completion fish".
function __${name}_path
    set -l at ''
    for word in (commandline -opc)[2..]
        switch "$at/$word"
            case ${nodes
              .slice(1)
              .map(({ path }) => word(path))
              .join(' ')}
                set at "$at/$word"
        end
    end
    echo $at
end
complete -c ${name} -f
${lines.join('\n')}
`
}
