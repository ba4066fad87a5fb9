"""The public data sets that workloads read: where their publishers serve them, what is used of them, and the terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Archive:
    """One zip archive, of which some members are used.

    url     of the archive
    sha256  of the archive; None where nobody publishes one
    prefix  of the members' names
    """

    url: str
    sha256: str | None
    prefix: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """What a person must open to get the data."""
        return (self.url,)


@dataclass(frozen=True)
class Files:
    """Files that are served one by one.

    url    what they share of their addresses, up to a slash
    paths  file name -> the rest of its address; what ends in `.gz` is unpacked
    """

    url: str
    paths: dict[str, str]

    @property
    def addresses(self) -> tuple[str, ...]:
        """What a person must open to get the data."""
        return tuple(self.url + path for path in self.paths.values())


@dataclass(frozen=True)
class Corpus:
    """A data set as its publisher serves it.

    source       where it is fetched from
    limit_bytes  size beyond which an archive or a file is refused
    folder       where the files lie, below a data folder
    files        file name -> SHA-256 of its (unpacked) content. None where no checksum is published: the content that
                 is used first is then the one that is used ever after
    terms        what a user must know before using it
    on_request   whether it is so large that it is fetched only where SLOTSWEEP_FETCH names it
    """

    name: str
    source: Archive | Files
    limit_bytes: int
    folder: str
    files: dict[str, str | None]
    terms: str
    on_request: bool = False


_MOVIELENS_TERMS = (
    "research use, no commercial use without permission, cite Harper & Konstan 2015 (doi:10.1145/2827872)"
)

_MOVIELENS = (
    Corpus(
        name="ml-latest-small",
        source=Archive(
            url="https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
            sha256="696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
            prefix="ml-latest-small/",
        ),
        limit_bytes=16 << 20,
        folder="movielens/ml-latest-small",
        files={
            "ratings.csv": "aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed9805352646",
            "movies.csv": "5a5f32dd9bb3797b8e728a1b98958789d2b13f294a69fdfbc5727f8a9611aa07",
        },
        terms=_MOVIELENS_TERMS,
    ),
    Corpus(
        name="ml-100k",
        source=Archive(
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            prefix="ml-100k/",
        ),
        limit_bytes=64 << 20,
        folder="movielens/ml-100k",
        files={
            "u.data": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            "u.item": "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
        },
        terms=f"{_MOVIELENS_TERMS}, no redistribution",
    ),
)

_LOGHUB_SHA256: dict[str, tuple[str | None, str | None]] = {
    "Android": (None, None),
    "Apache": (
        "54331d12eedf513f2127f4d89f0284c8b15fddfa5471103abf9db2c73d737778",
        "cf14ee33db62dd6c9ef2a8c53746a9805ab94fdafb12728067d18d1e706142a5",
    ),
    "BGL": (
        "3fe74103c0b02a28514534e2a47257a3f770135ca61afd425bbd3b9d6a31fe26",
        "af25e46fa90396048e88cde40a0ffbe52232f72a6a3cf7f5c00ab6b2a1d49a85",
    ),
    "HDFS": (
        "729df59774e3dde934044028546d2a55d5e3d4370b9d12fcebbe4c087b2bf7b4",
        "3e81e0a895615122aef4d598e91bf8ce053ce7c47e4b4f9cabc45ab9c7dfa9a6",
    ),
    "HPC": (
        "0787df9cfab7e9495669548315ea8a9a51b02029c0dcfa28944707ad755a8c86",
        "e4c944f1d8a9c76799f8b00d54afb4df7ce7a1233e0ccd7f6cd25c50c61f72bf",
    ),
    "Hadoop": (None, None),
    "HealthApp": (None, None),
    "Linux": (
        "7c86d7b0ecb961a25f00d9475a154df97613b9974f31ce142a146caa2017c71e",
        "6af96d60b2ecd872797cedc32b6d3795a3083d5ab0ca36198206fd4aae14cfca",
    ),
    "Mac": (None, None),
    "OpenSSH": (
        "c0996a11545f4b94b435993760afa441a9e373f7bfc9e787afdb8e62f65acb4f",
        "da0b79a11d4bb541b843320012cdd379ce47e4fb5bd64f62bfc33da61ebd515a",
    ),
    "OpenStack": (None, None),
    "Proxifier": (None, None),
    "Spark": (
        "d7df75f6839b6bcf98ff020b6b0b6e2ee89d8cc53ee3d08d441bd42fd84a2cb5",
        "d749c9dcac5768a91393a5ab5a961d67b2e97d7683052ed9ff3d1f11d0c76172",
    ),
    "Thunderbird": (
        "c62196d8a3449de765501bbf58c2093452e9d1add439053301d29fdad8a06809",
        "bd8656ef6a18a25083a7fa22172136ab4d20c26acef2b152d7b6ed757159e659",
    ),
    "Windows": (None, None),
    "Zookeeper": (None, None),
}
"""System -> SHA-256 of its structured lines: (as published with Loghub, as corrected by Khan et al., ICSE 2022)."""

_LOGHUB = "https://raw.githubusercontent.com/logpai/loghub/dd61d0952749ee7963bde24220d1be5ede023033/"
_LOGHUB_CORRECTED = (
    "https://raw.githubusercontent.com/logpai/logparser/db272234a0cb35422caedef30845f37db1062da9"
    "/data/loghub_2k_corrected/"
)
_LOGHUB_TERMS = (
    "free for research or academic work; refer to https://github.com/logpai/loghub, cite Zhu et al., ISSRE 2023 "
    "(arXiv 2008.06448), and keep the notice in all copies"
)


def _loghub(system: str, file: str, sha256: str | None, base: str, name: str) -> Corpus:
    return Corpus(
        name=name,
        source=Files(base, {file: f"{system}/{file}"}),
        limit_bytes=4 << 20,
        folder=f"loghub/{system}",
        files={file: sha256},
        terms=_LOGHUB_TERMS,
    )


def loghub_file(system: str, corrected: bool) -> str:
    """Name of the file with the structured lines of `system`."""
    return f"{system}_2k.log_structured{'_corrected' if corrected else ''}.csv"


_CLINICAL = (
    Corpus(
        name="mimic-iv-demo",
        source=Files(
            "https://physionet.org/files/mimic-iv-demo/2.2/", {"prescriptions.csv": "hosp/prescriptions.csv.gz"}
        ),
        limit_bytes=16 << 20,
        folder="clinical/mimic_iv_demo_2.2",
        files={"prescriptions.csv": "3865f9f13bec8bdfa6eca6205d26d1a55c40051a5c7d396609a68e532775db9d"},
        terms="Open Data Commons ODbL 1.0: attribution, share alike; cite Johnson et al. 2023 (doi:10.13026/dp1f-ex47)",
    ),
    Corpus(
        name="synpuf1k-omop",
        source=Files(
            "https://raw.githubusercontent.com/ablack3/create_test_synpuf_cdm_531"
            "/0a206b59f9853cba67a8d4d280d3baad08821fc8/synpuf1k_cdmv531/",
            {"condition_era.tsv": "condition_era.csv", "drug_era.tsv": "drug_era.csv"},
        ),
        limit_bytes=16 << 20,
        folder="insurance/synpuf1k_omop",
        files={
            "condition_era.tsv": "5738f62f1efdb26afa9e6f5c66e29dfd7e935b0f54ccad2f66b0bfc9b93a7c5e",
            "drug_era.tsv": "927c15c1dd5a2113c3c077da8c69eb61fc8553d387dc375b0e7a710a21248acb",
        },
        terms="CMS DE-SynPUF: synthetic claims in the public domain (cms.gov)",
    ),
    Corpus(
        name="de-synpuf-inpatient",
        source=Archive(
            url="https://www.cms.gov/research-statistics-data-and-systems/downloadable-public-use-files/synpufs"
            "/downloads/de1_0_2008_to_2010_inpatient_claims_sample_1.zip",
            sha256=None,
        ),
        limit_bytes=64 << 20,
        folder="insurance/de_synpuf",
        files={"DE1_0_2008_to_2010_Inpatient_Claims_Sample_1.csv": None},
        terms="CMS DE-SynPUF: synthetic claims in the public domain (cms.gov)",
    ),
)

_WIKITEXT_ARCHIVE = Archive(
    url="https://huggingface.co/datasets/ggml-org/ci/resolve/927b3642933080f1b0e811e2f916e14c292992f9"
    "/wikitext-2-raw-v1.zip",
    sha256="ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
    prefix="wikitext-2-raw/",
)
_WIKITEXT_VALIDATION: dict[str, str | None] = {
    "wiki.valid.raw": "4cd0f6876d07a413aa911261ff6d363c72d757d47f0fdd6015702014c89cb9c7"
}
_WIKITEXT_TERMS = "text of Wikipedia: CC BY-SA 3.0 and GFDL; cite Merity et al. 2016 (arXiv 1609.07843)"

_WIKITEXT = (
    Corpus(
        name="wikitext-2",
        source=_WIKITEXT_ARCHIVE,
        limit_bytes=16 << 20,
        folder="wikitext2",
        files={
            "wiki.train.raw": "6707892fa3788b5ab9ed78ab5ff37d9fe825f6011a2ad4fcd6a6d467f0e7da57",
            **_WIKITEXT_VALIDATION,
        },
        terms=_WIKITEXT_TERMS,
    ),
    Corpus(
        name="wikitext-2-validation",
        source=_WIKITEXT_ARCHIVE,
        limit_bytes=16 << 20,
        folder="wikitext2",
        files=_WIKITEXT_VALIDATION,
        terms=_WIKITEXT_TERMS,
    ),
    Corpus(
        name="wikitext-2-first-megabyte",
        source=Files(
            "https://raw.githubusercontent.com/kent-ai-dev/kent_apex/20db8833eb17ec7e571a3525a140b4756ccbfcd5/data/",
            {"wiki.train.first1MB.nonblank.txt": "wikitext2_train.txt"},
        ),
        limit_bytes=4 << 20,
        folder="wikitext2",
        files={"wiki.train.first1MB.nonblank.txt": "202fe8b8c4853f1de79b459d8af874d7f043f8299995c769604ffde1b07eb860"},
        terms=_WIKITEXT_TERMS,
    ),
)

_MINIMIND = (
    Corpus(
        name="minimind",
        source=Files(
            "https://huggingface.co/datasets/jingyaogong/minimind_dataset/resolve"
            "/312afb4f76391145c6902f765bb51691c09a12f5/",
            {"pretrain_t2t_mini.jsonl": "pretrain_t2t_mini.jsonl"},
        ),
        limit_bytes=1_300_000_000,
        folder="minimind",
        files={"pretrain_t2t_mini.jsonl": "6dd6716c84ab36897bdbfc7f88e04f4441c48c1ab7ecee88ce0b0e7d4685560c"},
        terms="Apache-2.0 and CC BY-NC 2.0, by source; refer to https://github.com/jingyaogong/minimind",
        on_request=True,
    ),
    Corpus(
        name="minimind-tokenizer",
        source=Files(
            "https://raw.githubusercontent.com/jingyaogong/minimind/d65ef2c00ebc6082f9df11541e1b191655eddb00/model/",
            {"tokenizer.json": "tokenizer.json"},
        ),
        limit_bytes=4 << 20,
        folder="minimind",
        files={"tokenizer.json": "71f32c68cf63a15355a8fc171b7594b3d41870fe0ddb54fc6aefa55f73a4a668"},
        terms="Apache-2.0",
    ),
)

CORPORA = {
    corpus.name: corpus
    for corpus in (
        *_MOVIELENS,
        *(
            _loghub(system, loghub_file(system, False), sha256, _LOGHUB, f"loghub-{system}")
            for system, (sha256, _) in _LOGHUB_SHA256.items()
        ),
        *(
            _loghub(system, loghub_file(system, True), sha256, _LOGHUB_CORRECTED, f"loghub-{system}-corrected")
            for system, (_, sha256) in _LOGHUB_SHA256.items()
        ),
        *_CLINICAL,
        *_WIKITEXT,
        *_MINIMIND,
    )
}
