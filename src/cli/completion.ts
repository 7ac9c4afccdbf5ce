// `cob completion`: the script by which a shell requests words at each Tab, and the words, which come from the commands themselves.
import type { Command } from 'commander'

export type CompletionShell = 'bash' | 'zsh' | 'fish'

/** The names of values that are files. */
const FILES = ['file', 'target', 'folder']
/** In place of a word: the shell completes the name of a file. */
const A_FILE = '<file>'

/** The possible next words, each followed by a tab and its description. The last one of `typed` is not complete yet. */
export function nextWords(program: Command, typed: readonly string[]): string[] {
  let command = program
  for (const word of typed.slice(0, -1)) command = command.commands.find((one) => one.name() === word) ?? command
  // With the commands and options that commander adds, such as `help`.
  const help = command.createHelp()
  const options = help.visibleOptions(command)
  const valued = options.find(({ short, long, required, optional }) => (required || optional) && [short, long].includes(typed.at(-2)))
  const values = (choices: string[] | undefined, name = '') => choices ?? (FILES.includes(name) ? [A_FILE] : [])
  if (valued) return values(valued.argChoices, /[<[](\w+)/.exec(valued.flags)?.[1])
  const [argument] = command.registeredArguments
  return [
    ...help.visibleCommands(command).map((one) => `${one.name()}\t${one.description()}`),
    ...values(argument?.argChoices, argument?.name()),
    ...options.flatMap(({ short, long, description }) => [short, long].filter(Boolean).map((name) => `${name}\t${description}`)),
  ]
}

/** The script for a shell: it asks `complete` of the command for words. */
export function completion(name: string, shell: CompletionShell): string {
  const bash = `_${name}() {
  local cur=\${COMP_WORDS[COMP_CWORD]} line file
  COMPREPLY=()
  while IFS= read -r line; do
    line=\${line%%$'\\t'*}
    if [[ $line != '${A_FILE}' ]]; then
      [[ $line == "$cur"* ]] && COMPREPLY+=("$line")
    elif [[ $cur != -* ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
    fi
  done < <(${name} complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}")
}
complete -F _${name} ${name}
`
  const zsh = `_${name}() {
  local -a given
  local line
  for line in "\${(@f)$(${name} complete -- "\${(@)words[2,CURRENT]}")}"; do
    if [[ $line == '${A_FILE}' ]]; then _files; else given+=("\${line/$'\\t'/:}"); fi
  done
  _describe ${name} given
}
if [[ \${funcstack[1]} == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`
  const fish = `function __${name}
    for line in (${name} complete -- (commandline -opc)[2..] (commandline -ct))
        test "$line" = '${A_FILE}'; and __fish_complete_path (commandline -ct); or echo $line
    end
end
complete -c ${name} -f -a '(__${name})'
`
  return { bash: `# Completion of ${name} for bash.\n${bash}`, zsh: `#compdef ${name}\n${zsh}`, fish: `# Completion of ${name} for fish.\n${fish}` }[shell]
}
