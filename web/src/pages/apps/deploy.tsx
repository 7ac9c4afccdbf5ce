// Deploys a zip of code.
import { useNavigate } from 'react-router'
import { useUpload } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/form.tsx'

export function Deploy() {
  const create = useUpload('createDeployment', ['listDeployments', 'listApps'])
  const navigate = useNavigate()
  return (
    <FormDialog
      title="Deploy code"
      trigger={<Button look="primary">Deploy</Button>}
      fields={[
        {
          name: 'file',
          label: 'Zip of the code',
          kind: 'file',
          accept: '.zip,application/zip',
          isRequired: true,
          hint: 'With package.json or pyproject.toml at its root.',
        },
        { name: 'entrypoint_rel_path', label: 'Entry point', isRequired: true, placeholder: 'app.ts', hint: 'The file in the zip that makes the apps.' },
        { name: 'version', label: 'Version', placeholder: 'latest' },
        { name: 'env_vars', label: 'Variables', kind: 'pairs', hint: 'One a line, as KEY=value. Values are stored encrypted and never shown again.' },
        { name: 'force', label: 'Replace this version if it exists', kind: 'switch' },
      ]}
      action="Deploy"
      send={async ({ file, entrypoint_rel_path: entrypoint, version, env_vars: vars, force }, progress) => {
        const form = new FormData()
        form.set('entrypoint_rel_path', entrypoint as string)
        if (version !== undefined) form.set('version', version as string)
        for (const [name, value] of Object.entries((vars ?? {}) as Record<string, string>)) form.set(`env_vars[${name}]`, value)
        form.set('force', String(force))
        form.set('file', file as File)
        const { id } = await create.mutateAsync({ body: form, progress })
        await navigate(`/deployments/${id}`)
      }}
    />
  )
}
