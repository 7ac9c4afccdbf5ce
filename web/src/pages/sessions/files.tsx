// The files of a session: list, upload, download, delete.
import { useState } from 'react'
import { DropZone, FileTrigger, isFileDropItem } from 'react-aria-components'
import { useSearchParams } from 'react-router'
import { bytes } from '../../api/client.ts'
import type { AnswerOf } from '../../api/contracts.ts'
import { queries, useCall, useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { upload } from '../../api/upload.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm, Dialog } from '../../ui/confirm.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Field } from '../../ui/field.tsx'
import { Loading, Pages } from '../../ui/list.tsx'
import { Ago, Mono, size } from '../../ui/show.tsx'
import { printable } from '../../ui/text.ts'
import { done, failed } from '../../ui/toasts.tsx'
import { save } from './download.ts'
import type { TabProps } from './session.tsx'

type Entry = AnswerOf<'listFiles'>[number]

const HOME = '/home/kernel'

const join = (folder: string, name: string): string => `${folder === '/' ? '' : folder}/${name}`

/** Uploads and downloads, one at a time. `transfer` is the progress of the present one. */
function useTransfers(id: string, path: string) {
  const [transfer, setTransfer] = useState<string>()
  const refresh = () => queries.invalidateQueries({ queryKey: ['listFiles'] })

  const send = async (files: readonly File[]): Promise<void> => {
    try {
      for (const [at, file] of files.entries()) {
        const which = files.length > 1 ? ` (${at + 1} of ${files.length})` : ''
        await upload('writeFile', { params: { id }, query: { path: join(path, file.name) }, body: file }, (part) =>
          setTransfer(`Uploading ${file.name}${which}: ${Math.round(part * 100)} %`),
        )
      }
      done(files.length === 1 ? 'The file has been uploaded' : `${files.length} files have been uploaded`)
    } finally {
      setTransfer(undefined)
      await refresh()
    }
  }
  const fetchFile = async (entry: Entry): Promise<void> => {
    const name = entry.is_dir ? `${entry.name || 'files'}.zip` : entry.name
    try {
      setTransfer(`Downloading ${name}…`)
      const response = await bytes(
        entry.is_dir ? 'downloadDirZip' : 'readFile',
        { params: { id }, query: { path: entry.path } },
        { signal: new AbortController().signal },
      )
      await save(response, name, (count) => setTransfer(`Downloading ${name}: ${size(count)}`))
    } finally {
      setTransfer(undefined)
    }
  }
  return { transfer, send, fetchFile }
}

export default function Files({ session }: TabProps) {
  const id = session.session_id
  const [search, set] = useSearchParams()
  const path = search.get('path') ?? HOME
  const mayWrite = useMay('writeFile')
  const mayRead = useMay('readFile')
  const go = (to: string): void => set(to === HOME ? {} : { path: to })
  const { data, error, isPending, refetch } = useCall('listFiles', { params: { id }, query: { path } })
  const { transfer, send, fetchFile } = useTransfers(id, path)

  return (
    <>
      <div className="toolbar">
        <Breadcrumbs path={path} go={go} />
        <span className="space" />
        {mayWrite && (
          <>
            <FileTrigger allowsMultiple onSelect={(files) => files && void send([...files]).catch(failed('The upload has failed'))}>
              <Button isDisabled={transfer !== undefined}>Upload</Button>
            </FileTrigger>
            <NewFolder id={id} folder={path} />
          </>
        )}
        {mayRead && (
          <Button onPress={() => void fetchFile({ name: path.split('/').pop()!, path, is_dir: true } as Entry).catch(failed('The download has failed'))}>
            Download as zip
          </Button>
        )}
        <Button onPress={() => void refetch()}>Refresh</Button>
      </div>
      <p role="status" className="transfer">
        {transfer}
      </p>
      <DropZone
        className="drop"
        aria-label="Drop files to upload them"
        isDisabled={!mayWrite}
        onDrop={({ items }) =>
          void Promise.all(items.filter(isFileDropItem).map((item) => item.getFile()))
            .then(send)
            .catch(failed('The upload has failed'))
        }
      >
        {isPending ? (
          <Loading label="the files" />
        ) : !data ? (
          <ErrorNotice error={error} what="This folder" retry={() => void refetch()} />
        ) : data.length === 0 ? (
          <div className="empty">
            <h2>This folder is empty</h2>
            <p>
              {mayWrite && 'Drop files here, or use Upload. '}The browser saves its downloads in {HOME}/Downloads.
            </p>
          </div>
        ) : (
          <Entries {...{ id, data, go, mayRead, mayWrite, fetchFile }} folder={path} />
        )}
      </DropZone>
    </>
  )
}

interface EntriesProps {
  id: string
  data: readonly Entry[]
  folder: string
  go: (to: string) => void
  mayRead: boolean
  mayWrite: boolean
  fetchFile: (entry: Entry) => Promise<void>
}

function Entries({ id, data, folder, go, mayRead, mayWrite, fetchFile }: EntriesProps) {
  return (
    <Pages
      label="Files"
      items={data}
      keyOf={({ path: each }) => each}
      columns={[
        {
          title: 'Name',
          cell: (entry) =>
            entry.is_dir ? (
              <Button look="quiet" onPress={() => go(join(folder, entry.name))}>
                <span className="file folder">{printable(entry.name)}/</span>
              </Button>
            ) : (
              <span className="file">{printable(entry.name)}</span>
            ),
        },
        { title: 'Size', isNumber: true, cell: ({ is_dir: isFolder, size_bytes: count }) => (isFolder ? '' : size(count)) },
        { title: 'Changed', isMinor: true, cell: ({ mod_time: at }) => <Ago at={at} /> },
        { title: 'Mode', isMinor: true, cell: ({ mode }) => <Mono>{mode}</Mono> },
        {
          title: 'Actions',
          cell: (entry) => (
            <span className="buttons">
              {mayRead && !entry.is_dir && (
                <Button
                  look="quiet"
                  aria-label={`Download ${printable(entry.name)}`}
                  onPress={() => void fetchFile(entry).catch(failed('The download has failed'))}
                >
                  Download
                </Button>
              )}
              {mayWrite && <Delete id={id} entry={entry} />}
            </span>
          ),
        },
      ]}
    />
  )
}

function Breadcrumbs({ path, go }: { path: string; go: (to: string) => void }) {
  const parts = path.split('/').filter(Boolean)
  return (
    <nav aria-label="Folder" className="crumbs">
      <Button look="quiet" aria-label="Root folder" onPress={() => go('/')}>
        /
      </Button>
      {parts.map((part, at) => {
        const target = `/${parts.slice(0, at + 1).join('/')}`
        return (
          <span key={target}>
            {at > 0 && <span className="muted">/</span>}
            <Button look="quiet" onPress={() => go(target)}>
              {printable(part)}
            </Button>
          </span>
        )
      })}
    </nav>
  )
}

function NewFolder({ id, folder }: { id: string; folder: string }) {
  const create = useChange('createDirectory', ['listFiles'])
  const [name, setName] = useState('')
  return (
    <Dialog title="New folder" trigger={<Button>New folder</Button>}>
      {(close) => (
        <form
          className="dialog-form"
          onSubmit={(event) => {
            event.preventDefault()
            create.mutate(
              { params: { id }, body: { path: join(folder, name) } },
              { onSuccess: () => (setName(''), close()), onError: failed('The folder was not made') },
            )
          }}
        >
          <Field label="Name" value={name} onChange={setName} isRequired maxLength={255} autoFocus />
          <div className="buttons">
            <Button onPress={close}>Cancel</Button>
            <Button look="primary" type="submit" isDisabled={create.isPending || name === ''}>
              Create
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  )
}

function Delete({ id, entry }: { id: string; entry: Entry }) {
  const file = useChange('deleteFile', ['listFiles'])
  const folder = useChange('deleteDirectory', ['listFiles'])
  return (
    <Confirm
      title={entry.is_dir ? 'Delete this folder?' : 'Delete this file?'}
      text={
        <p>
          <b>{printable(entry.name)}</b>
          {entry.is_dir ? ' and everything in it is gone after that.' : ' is gone after that.'}
        </p>
      }
      action="Delete"
      trigger={
        <Button look="quiet" aria-label={`Delete ${printable(entry.name)}`}>
          Delete
        </Button>
      }
      onConfirm={() => (entry.is_dir ? folder : file).mutateAsync({ params: { id }, body: { path: entry.path } })}
    />
  )
}
