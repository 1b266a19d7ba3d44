# SPDX-License-Identifier: BSD-3-Clause
# pyshmem with the simulator; for GPUs: docker build --build-arg EXTRAS=cuda . and docker run --gpus all.
#   docker build -t pyshmem . && docker run --rm pyshmem run -n 4 examples/03_shift.py
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps -w /wheels .

FROM python:3.13-slim
ARG EXTRAS=sim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[$EXTRAS]" && rm -rf /wheels
WORKDIR /work
COPY examples examples
# PEs share memory by memfd, not /dev/shm: no --ipc or --shm-size is needed.
ENTRYPOINT ["python", "-m", "pyshmem"]
CMD ["doctor"]
