// Extensions of a project: list, upload, download.
import type { ItemOf } from '../../api/contracts.ts'
import { bytes } from '../../api/client.ts'
import { useUpload } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { BY_NAME, List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Named, size } from '../../ui/show.tsx'
import { done, failed } from '../../ui/toasts.tsx'
import { save } from '../sessions/download.ts'

type Extension = ItemOf<'listExtensions'>

const nameOf = ({ name, id }: Extension): string => name ?? id
/** The limit for a zip of 50 MiB over a slow connection. */
const UPLOAD_MS = 600_000

function Upload() {
  const upload = useUpload('uploadExtension', ['listExtensions'])
  return (
    <FormDialog
      title="Upload an extension"
      trigger={<Button look="primary">Upload</Button>}
      fields={[
        {
          name: 'file',
          label: 'Zip of the unpacked extension',
          kind: 'file',
          accept: '.zip,application/zip',
          isRequired: true,
          hint: 'At most 50 MiB, with manifest.json at its root or in one folder.',
        },
        { name: 'name', label: 'Name', hint: 'Letters, digits, ".", "_" and "-". May be empty.' },
      ]}
      action="Upload"
      send={async ({ file, name }, progress) => {
        const form = new FormData()
        if (name !== undefined) form.set('name', name as string)
        form.set('file', file as File)
        await upload.mutateAsync({ body: form, progress })
        done('The extension has been uploaded')
      }}
    />
  )
}

async function download(extension: Extension): Promise<void> {
  const response = await bytes('downloadExtension', { params: { id_or_name: extension.id } }, { signal: AbortSignal.timeout(UPLOAD_MS) })
  await save(response, `${nameOf(extension)}.zip`)
}

const columns = (mayUse: boolean): Column<Extension>[] => [
  { title: 'Extension', cell: ({ id, name }) => <Named id={id} name={name} /> },
  { title: 'Size', isNumber: true, cell: ({ size_bytes: count }) => size(count) },
  { title: 'Last used', cell: ({ last_used_at: at }) => <Ago at={at} /> },
  { title: 'Uploaded', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (extension) => (
      <span className="row-actions">
        <Button look="quiet" aria-label={`Download ${nameOf(extension)}`} onPress={() => void download(extension).catch(failed('The download has failed'))}>
          Download
        </Button>
        {mayUse && (
          <Remove
            call="deleteExtension"
            input={{ params: { id_or_name: extension.id } }}
            changes={['listExtensions']}
            what="the extension"
            name={nameOf(extension)}
            text="sessions that have loaded it keep it until they end."
          />
        )}
      </span>
    ),
  },
]

export default function Extensions() {
  const may = useRights()
  return (
    <>
      <Head title="Extensions" text="Extensions of Chromium that sessions load by id or name.">
        {may.use && <Upload />}
      </Head>
      <List
        id="listExtensions"
        label="Extensions"
        filters={BY_NAME}
        columns={columns(may.use)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No extensions"
            text="Zip the folder of an unpacked extension and upload it here, or from a program:"
            examples={examples(
              `import { createReadStream } from 'node:fs'\n\nconst extension = await kernel.extensions.upload({ name: 'mine', file: createReadStream('extension.zip') })\nconsole.log(extension.id)`,
              `from pathlib import Path\n\nextension = kernel.extensions.upload(name="mine", file=Path("extension.zip"))\nprint(extension.id)`,
              `-F name=mine -F file=@extension.zip $URL/extensions`,
            )}
          />
        }
      />
    </>
  )
}
