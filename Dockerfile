# The three commands with all extras, on the CPU:
#   docker build -t rescorer .
#   docker run --rm -v "$PWD:/data" rescorer rescorer train phrase-table.gz --out rnn

FROM python:3.11-slim AS build
# KenLM has no wheel.
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake g++ \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/rescorer
ENV PATH=/opt/rescorer/bin:$PATH
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
# PyTorch first, in a layer of its own: uv knows PyTorch's index of CPU builds.
RUN pip install --no-cache-dir uv==0.13.9 \
    && uv pip install --no-cache --python /opt/rescorer/bin/python --torch-backend cpu \
        "$(grep '^torch==' constraints.txt)"
COPY moses_bridge moses_bridge
COPY rescorer rescorer
COPY tuning tuning
RUN pip install --no-cache-dir -c constraints.txt '.[all,kenlm]' \
    && pip uninstall --yes uv

FROM python:3.11-slim
# OpenMP, which PyTorch and scikit-learn use.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 user \
    && mkdir /data \
    && chown user /data
COPY --from=build --chown=1000 /opt/rescorer /opt/rescorer
ENV PATH=/opt/rescorer/bin:$PATH
USER 1000
WORKDIR /data
# What Numba compiles is kept in the image, so that the first command need not compile it; a processor of another kind
# than the builder's compiles anew.
RUN rescorer warm
CMD ["rescorer", "--help"]
